<?php
// SPDX-License-Identifier: BSD-3-Clause
// php-memcached, text and binary: client.php HOST PORT text|binary [USER PASSWORD]; with these by SASL.
// $LOGIN: the first request is a set of it, since the client sends passwords in the binary protocol only.

function ok($condition, $name) {
    echo($condition ? "ok" : "not ok"), " - $name\n";
}

function gone_within($m, $key, $seconds) {
    for ($end = microtime(true) + $seconds; microtime(true) < $end; usleep(50000)) {
        if ($m->get($key) === false && $m->getResultCode() == Memcached::RES_NOTFOUND) {
            return true;
        }
    }
    return false;
}

function storing($m) {
    $bytes = implode("", array_map("chr", range(0, 255))) . "\r\nEND\r\n";
    ok($m->set("a", $bytes) && $m->get("a") === $bytes, "set and get, all byte values");
    foreach (["int" => 7, "float" => 1.5, "bool" => true, "array" => ["x" => [1, 2]]] as $kind => $value) {
        ok($m->set("flags-$kind", $value) && $m->get("flags-$kind") === $value, "flags carry the type: $kind");
    }
    ok(!$m->add("a", "x") && $m->getResultCode() == Memcached::RES_NOTSTORED
        || $m->getResultCode() == Memcached::RES_DATA_EXISTS, "add of what exists");
    ok($m->add("n", "new"), "add of what does not exist");
    ok(!$m->replace("none", "x"), "replace of what does not exist");
    ok($m->append("n", ">") && $m->prepend("n", "<") && $m->get("n") === "<new>", "append and prepend");
    $big = str_repeat("0123456789", 90000);
    ok($m->set("big", $big) && $m->get("big") === $big, "a value of 900 KB");
    ok(!$m->set("huge", str_repeat("x", 2000000)), "2 MB are refused");
    ok($m->get("n") === "<new>", "and the client works on");
}

function counting_and_cas($m) {
    $many = [];
    for ($i = 0; $i < 200; $i++) {
        $many["k$i"] = "v$i";
    }
    ok($m->setMulti($many), "setMulti of 200");
    $got = $m->getMulti(array_merge(array_keys($many), ["absent"]));
    ksort($got);
    ksort($many);
    ok($got === $many, "getMulti of 201, one of them absent");
    $with = $m->get("n", null, Memcached::GET_EXTENDED);
    ok($m->cas($with["cas"], "n", "1"), "cas with the right unique");
    ok(!$m->cas($with["cas"], "n", "2") && $m->getResultCode() == Memcached::RES_DATA_EXISTS, "cas with a stale one");
    $m->set("i", 10);
    ok($m->increment("i", 5) === 15 && $m->decrement("i", 100) === 0, "increment, and decrement to zero");
    ok($m->increment("none", 1) === false, "increment of what does not exist");
}

function ending($m) {
    ok($m->delete("i") && !$m->delete("i"), "delete, and again");
    $m->set("old", "1", time() - 10);
    ok($m->get("old") === false, "an absolute expiry in the past is a miss at once");
    $m->set("soon", "1", 1);
    ok(gone_within($m, "soon", 10), "an expiry of one second");
    $m->set("t", "1", 1000);
    ok($m->touch("t", 1) && gone_within($m, "t", 10), "a touch that shortens");
    ok($m->deleteMulti(["k1", "k2"]) == ["k1" => true, "k2" => true], "deleteMulti");
    $versions = array_values($m->getVersion());
    ok(preg_match('/^1\.6\.\d+/', $versions[0]), "version");
    $stats = array_values($m->getStats());
    ok($stats[0]["curr_items"] > 0 && $stats[0]["pid"] > 0, "stats");
    ok($m->flush() && $m->get("big") === false, "flush");
}

$m = new Memcached();
$m->setOption(Memcached::OPT_BINARY_PROTOCOL, $argv[3] == "binary");
$m->setOption(Memcached::OPT_COMPRESSION, false);
$m->setOption(Memcached::OPT_TCP_NODELAY, true);
$m->setOption(Memcached::OPT_RECV_TIMEOUT, 20000000);
$m->setOption(Memcached::OPT_SEND_TIMEOUT, 20000000);
$m->setOption(Memcached::OPT_POLL_TIMEOUT, 20000);
if ($argc > 5) {
    $m->setSaslAuthData($argv[4], $argv[5]);
}
$m->addServer($argv[1], (int)$argv[2]);
if (getenv("LOGIN") !== false) {
    ok($m->set("login", getenv("LOGIN")), "login");
}
storing($m);
counting_and_cas($m);
ending($m);
$m->quit();
