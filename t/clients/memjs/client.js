// SPDX-License-Identifier: BSD-3-Clause
// memjs (binary): client.js HOST PORT [USER PASSWORD]; with these by SASL. memjs is found through NODE_PATH.
'use strict';
const memjs = require('memjs');

function ok(condition, name) {
  console.log((condition ? 'ok - ' : 'not ok - ') + name);
}

async function value(client, key) {
  const got = await client.get(key);
  return got.value === null ? null : got.value;
}

async function goneWithin(client, key, seconds) {
  for (const end = Date.now() + seconds * 1000; Date.now() < end;) {
    if (await value(client, key) === null) return true;
    await new Promise((go) => setTimeout(go, 50));
  }
  return false;
}

async function fails(promise) {
  try {
    await promise;
    return false;
  } catch (e) {
    return true;
  }
}

async function storing(c) {
  const bytes = Buffer.from(Array.from({length: 512}, (_, i) => i % 256));
  ok(await c.set('a', bytes, {}) && bytes.equals(await value(c, 'a')), 'set and get, all byte values');
  ok(await c.add('a', 'x', {}) === false, 'add of what exists');
  ok(await c.add('n', 'new', {}) === true, 'add of what does not exist');
  ok(await c.replace('none', 'x', {}) === false, 'replace of what does not exist');
  ok(await c.append('n', '>') && String(await value(c, 'n')) === 'new>', 'append');
  const big = Buffer.alloc(900000, 'abcdefg');
  ok(await c.set('big', big, {}) && big.equals(await value(c, 'big')), 'a value of 900 KB');
  ok(await fails(c.set('huge', Buffer.alloc(2000000, 'x'), {})), '2 MB are refused');
  ok(String(await value(c, 'n')) === 'new>', 'and the client works on');
  const all = await Promise.all(Array.from({length: 200}, (_, i) => c.set('k' + i, 'v' + i, {})));
  ok(all.every((x) => x === true), '200 sets at once');
  const got = await Promise.all(Array.from({length: 200}, (_, i) => value(c, 'k' + i)));
  ok(got.every((x, i) => String(x) === 'v' + i), '200 gets at once');
}

async function rest(c) {
  ok((await c.increment('i', 5, {initial: 10})).value === 10, 'increment creates with its initial value');
  ok((await c.increment('i', 5, {initial: 10})).value === 15, 'increment');
  ok((await c.decrement('i', 100, {initial: 10})).value === 0, 'decrement stops at zero');
  ok(await c.delete('i') === true && await c.delete('i') === false, 'delete, and again');
  await c.set('soon', '1', {expires: 1});
  ok(await goneWithin(c, 'soon', 10), 'an expiry of one second');
  await c.set('t', '1', {expires: 1000});
  ok(await c.touch('t', 1) === true && await goneWithin(c, 't', 10), 'a touch that shortens');
  ok(await c.touch('none', 1) === false, 'touch of what does not exist');
  const stats = await new Promise((done, fail) =>
    c.stats((error, server, s) => (error ? fail(error) : done(s))));
  ok(Number(stats.curr_items) > 0 && /^1\.6\./.test(stats.version), 'stats');
  await new Promise((done, fail) => c.flush((error) => (error ? fail(error) : done())));
  ok(await value(c, 'big') === null, 'flush');
}

async function main() {
  const [host, port, username, password] = process.argv.slice(2);
  const client = memjs.Client.create(host + ':' + port, {timeout: 20, retries: 0, username, password});
  await storing(client);
  await rest(client);
  client.quit();
}

main().catch((e) => {
  console.log('not ok - no exception: ' + e);
  process.exit(1);
});
