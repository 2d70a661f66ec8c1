// SPDX-License-Identifier: BSD-3-Clause
// gomemcache (classic text): program HOST PORT. $CA_FILE: use TLS. $LOGIN: send it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

func ok(condition bool, name string) {
	if condition {
		fmt.Println("ok - " + name)
	} else {
		fmt.Println("not ok - " + name)
	}
}

func holds(c *memcache.Client, key string, value []byte) bool {
	it, err := c.Get(key)
	return err == nil && bytes.Equal(it.Value, value)
}

func misses(c *memcache.Client, key string) bool {
	_, err := c.Get(key)
	return errors.Is(err, memcache.ErrCacheMiss)
}

func missesWithin(c *memcache.Client, key string, limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if misses(c, key) {
			return true
		}
	}
	return false
}

func storing(c *memcache.Client) {
	value := make([]byte, 256)
	for i := range value {
		value[i] = byte(i)
	}
	ok(c.Set(&memcache.Item{Key: "a", Value: value, Flags: 0xfedcba98}) == nil && holds(c, "a", value),
		"set and get, all byte values")
	it, err := c.Get("a")
	ok(err == nil && it.Flags == 0xfedcba98, "flags of 32 bits")
	ok(errors.Is(c.Add(&memcache.Item{Key: "a", Value: value}), memcache.ErrNotStored), "add of what exists")
	ok(c.Add(&memcache.Item{Key: "n", Value: []byte("new")}) == nil, "add of what does not exist")
	ok(errors.Is(c.Replace(&memcache.Item{Key: "none"}), memcache.ErrNotStored), "replace of what does not exist")
	ok(c.Append(&memcache.Item{Key: "n", Value: []byte(">")}) == nil &&
		c.Prepend(&memcache.Item{Key: "n", Value: []byte("<")}) == nil && holds(c, "n", []byte("<new>")),
		"append and prepend")
	big := bytes.Repeat([]byte("0123456789"), 90000)
	ok(c.Set(&memcache.Item{Key: "big", Value: big}) == nil && holds(c, "big", big), "a value of 900 KB")
	ok(c.Set(&memcache.Item{Key: "huge", Value: make([]byte, 2000000)}) != nil, "2 MB are refused")
	ok(holds(c, "n", []byte("<new>")), "and the client works on")
}

func countingAndCas(c *memcache.Client) {
	it, err := c.Get("n")
	it.Value = []byte("1")
	ok(err == nil && c.CompareAndSwap(it) == nil, "cas with the right unique")
	it.Value = []byte("2")
	ok(errors.Is(c.CompareAndSwap(it), memcache.ErrCASConflict) && holds(c, "n", []byte("1")), "cas with a stale one")
	c.Set(&memcache.Item{Key: "i", Value: []byte("10")})
	up, err := c.Increment("i", 5)
	ok(err == nil && up == 15, "incr")
	down, err := c.Decrement("i", 100)
	ok(err == nil && down == 0, "decr stops at zero")
	_, err = c.Increment("none", 1)
	ok(errors.Is(err, memcache.ErrCacheMiss), "incr of what does not exist")

	keys := []string{"absent"}
	for i := 0; i < 200; i++ {
		key := fmt.Sprintf("k%d", i)
		keys = append(keys, key)
		c.Set(&memcache.Item{Key: key, Value: []byte("v" + key)})
	}
	found, err := c.GetMulti(keys)
	good := err == nil && len(found) == 200
	for key, it := range found {
		good = good && string(it.Value) == "v"+key
	}
	ok(good, "get of 201 keys, one of them absent")
}

func ending(c *memcache.Client) {
	ok(c.Delete("i") == nil && errors.Is(c.Delete("i"), memcache.ErrCacheMiss), "delete, and again")
	c.Set(&memcache.Item{Key: "past", Value: []byte("1"), Expiration: -1})
	ok(misses(c, "past"), "a negative expiry is a miss at once")
	c.Set(&memcache.Item{Key: "soon", Value: []byte("1"), Expiration: 1})
	ok(missesWithin(c, "soon", 10*time.Second), "an expiry of one second")
	c.Set(&memcache.Item{Key: "t", Value: []byte("1"), Expiration: 1000})
	ok(c.Touch("t", 1) == nil && missesWithin(c, "t", 10*time.Second), "a touch that shortens")
	ok(errors.Is(c.Touch("none", 1), memcache.ErrCacheMiss), "touch of what does not exist")
	c.Set(&memcache.Item{Key: "g", Value: []byte("1"), Expiration: 1000})
	it, err := c.GetAndTouch("g", 500)
	ok(err == nil && string(it.Value) == "1", "get and touch")
	ok(c.Ping() == nil, "ping")
}

func together(c *memcache.Client) {
	var wait sync.WaitGroup
	var lock sync.Mutex
	wrong := 0
	for g := 0; g < 16; g++ {
		wait.Add(1)
		go func(g int) {
			defer wait.Done()
			for i := 0; i < 200; i++ {
				key, value := fmt.Sprintf("g%d-%d", g, i), []byte(fmt.Sprintf("value %d %d", g, i))
				if c.Set(&memcache.Item{Key: key, Value: value}) != nil || !holds(c, key, value) {
					lock.Lock()
					wrong++
					lock.Unlock()
				}
			}
		}(g)
	}
	wait.Wait()
	ok(wrong == 0, "sixteen goroutines with pooled connections")
	ok(c.FlushAll() == nil && misses(c, "big"), "flush_all")
}

func dialer() interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
} {
	file, found := os.LookupEnv("CA_FILE")
	if !found {
		return &net.Dialer{}
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(file)
	ok(err == nil && pool.AppendCertsFromPEM(text), "read the authority's certificate")
	return &tls.Dialer{Config: &tls.Config{RootCAs: pool}}
}

// The client has no passwords: each of its connections begins with the set of them.
func login(conn net.Conn) error {
	token, found := os.LookupEnv("LOGIN")
	if !found {
		return nil
	}
	fmt.Fprintf(conn, "set login 0 0 %d\r\n%s\r\n", len(token), token)
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && reply != "STORED\r\n" {
		err = errors.New("login: " + reply)
	}
	return err
}

func main() {
	c := memcache.New(os.Args[1] + ":" + os.Args[2])
	c.Timeout = 20 * time.Second
	c.MaxIdleConns = 16
	dialer := dialer()
	c.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			err = login(conn)
		}
		return conn, err
	}
	storing(c)
	countingAndCas(c)
	ending(c)
	together(c)
}
