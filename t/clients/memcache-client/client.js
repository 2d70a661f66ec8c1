// SPDX-License-Identifier: BSD-3-Clause
// memcache-client (classic text, one connection): client.js HOST PORT. $CA_FILE: use TLS.
// $LOGIN: the first request is a set of it, since the client has no passwords.
'use strict';
const fs = require('fs');
const {MemcacheClient} = require('memcache-client');

function ok(condition, name) {
  console.log((condition ? 'ok - ' : 'not ok - ') + name);
}

async function value(c, key) {
  const got = await c.get(key);
  return got === undefined ? undefined : got.value;
}

async function is(promise, word) {
  const reply = await promise;
  return (Array.isArray(reply) ? reply.join(' ') : reply) === word;
}

async function fails(promise, word) {
  try {
    await promise;
    return false;
  } catch (e) {
    return e.message.startsWith(word);
  }
}

async function goneWithin(c, key, seconds) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end;) {
    if (await value(c, key) === undefined) return true;
    await new Promise((go) => setTimeout(go, 50));
  }
  return false;
}

async function storing(c) {
  const bytes = Buffer.concat([Buffer.from(Array.from({length: 512}, (_, i) => i % 256)), Buffer.from('\r\nEND\r\n')]);
  ok(await is(c.set('a', bytes), 'STORED') && bytes.equals(await value(c, 'a')), 'set and get, all byte values');
  await c.set('json', {x: [1, null, 2.5]});
  ok(JSON.stringify(await value(c, 'json')) === '{"x":[1,null,2.5]}', 'flags carry the type');
  ok(await fails(c.add('a', 'x'), 'NOT_STORED'), 'add of what exists');
  ok(await is(c.add('n', 'new'), 'STORED'), 'add of what does not exist');
  ok(await fails(c.replace('none', 'x'), 'NOT_STORED'), 'replace of what does not exist');
  await c.append('n', '>');
  await c.prepend('n', '<');
  ok(await value(c, 'n') === '<new>', 'append and prepend');
  const big = Buffer.alloc(900000, 'abcdefg');
  ok(await is(c.set('big', big), 'STORED') && big.equals(await value(c, 'big')), 'a value of 900 KB');
  ok(await fails(c.set('huge', Buffer.alloc(2000000, 'x')), 'SERVER_ERROR'), '2 MB are refused');
  ok(await value(c, 'n') === '<new>', 'and the client works on');
  c.set('quiet', '1', {noreply: true});
  ok(await value(c, 'quiet') === '1', 'the next get sees a noreply set');
}

async function together(c) {
  const keys = Array.from({length: 200}, (_, i) => 'k' + i);
  await Promise.all(keys.map((key) => c.set(key, 'v' + key)));
  const got = await Promise.all(keys.map((key) => value(c, key)));
  ok(got.every((x, i) => x === 'v' + keys[i]), '200 sets, then 200 gets, pipelined');
  const found = await c.get([...keys, 'absent']);
  ok(keys.every((key) => found[key].value === 'v' + key) && !('absent' in found), 'a get of 201 keys, one of them absent');
}

async function rest(c) {
  const {casUniq} = await c.gets('n');
  ok(await is(c.cas('n', '10', {casUniq}), 'STORED'), 'cas with the right unique');
  ok(await fails(c.cas('n', '2', {casUniq}), 'EXISTS'), 'cas with a stale unique');
  ok(await c.incr('n', 5) === '15' && await c.decr('n', 100) === '0', 'incr, and decr to zero');
  ok(await fails(c.incr('none', 1), 'NOT_FOUND'), 'incr of what does not exist');
  ok(await is(c.delete('n'), 'DELETED') && await fails(c.delete('n'), 'NOT_FOUND'), 'delete, and again');
  await c.set('t', '1', {lifetime: 1000});
  ok(await is(c.touch('t', 1), 'TOUCHED') && await goneWithin(c, 't', 10), 'a touch that shortens');
  ok(/^1\.6\./.test((await c.version())[1]), 'version');
  ok(Object.fromEntries((await c.cmd('stats')).STAT).curr_items > 0, 'stats');
  ok(await is(c.cmd('flush_all'), 'OK') && await value(c, 'big') === undefined, 'flush_all');
}

async function main() {
  const options = {server: process.argv[2] + ':' + process.argv[3], cmdTimeout: 20000};
  if (process.env.CA_FILE) options.tls = {ca: fs.readFileSync(process.env.CA_FILE)};
  const client = new MemcacheClient(options);
  if (process.env.LOGIN) ok(await is(client.set('login', process.env.LOGIN), 'STORED'), 'login');
  await storing(client);
  await together(client);
  await rest(client);
  client.shutdown();
}

main().catch((e) => {
  console.log('not ok - no exception: ' + e);
  process.exit(1);
});
