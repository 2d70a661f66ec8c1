# SPDX-License-Identifier: BSD-3-Clause
# Dalli, binary, and meta where this Dalli speaks it: client.rb HOST PORT binary|meta [USER PASSWORD]; with these
# by SASL. $CA_FILE: use TLS.
require 'dalli'

def ok(condition, name)
  puts "#{condition ? 'ok' : 'not ok'} - #{name}"
end

def gone_within(client, key, seconds)
  limit = Time.now + seconds
  sleep 0.05 while !client.get(key).nil? && Time.now < limit
  client.get(key).nil?
end

def refused?
  yield
  false
rescue Dalli::DalliError
  true
end

def storing(c)
  ok c.set('a', 'text') && c.get('a') == 'text', 'set and get'
  ok c.set('h', { 'x' => [1, nil, 2.5] }) && c.get('h') == { 'x' => [1, nil, 2.5] }, 'flags carry marshalling'
  bytes = (0..255).map(&:chr).join.b
  c.set('raw', bytes, 0, raw: true)
  ok c.get('raw', raw: true) == bytes, 'all byte values, raw'
  ok !c.add('a', 'x'), 'add of what exists'
  ok c.add('n', 'new', 0, raw: true), 'add of what does not exist'
  ok [false, nil, 0].include?(c.replace('none', 'x')), 'replace of what does not exist'
  ok c.append('n', '>') && c.prepend('n', '<') && c.get('n', raw: true) == '<new>', 'append and prepend'
  big = '0123456789' * 90_000
  ok c.set('big', big, 0, raw: true) && c.get('big', raw: true) == big, 'a value of 900 KB'
  ok refused? { c.set('huge', 'x' * 2_000_000, 0, raw: true) } || c.get('huge').nil?, '2 MB are refused'
  ok c.get('n', raw: true) == '<new>', 'and the client works on'
end

# https://github.com/petergoldstein/dalli/issues/853: not over TLS before 3.1.
def pipelined_gets?
  !ENV.key?('CA_FILE') || Gem::Version.new(Dalli::VERSION) >= Gem::Version.new('3.1.0')
end

def quiet(c)
  many = (0...200).to_h { |i| ["k#{i}", "v#{i}"] }
  c.multi { many.each { |k, v| c.set(k, v) } }
  if pipelined_gets?
    ok c.get_multi(*many.keys, 'absent') == many, 'quiet sets, then get_multi of 201'
  else
    puts "ok - get_multi # SKIP Dalli #{Dalli::VERSION} has none over TLS"
    ok many.all? { |k, v| c.get(k) == v }, 'quiet sets, then gets of 200'
  end
end

def counting_and_cas(c)
  ok c.cas('a') { |old| "#{old}!" } && c.get('a') == 'text!', 'cas'
  stale = c.cas('a') do |_|
    c.set('a', 'between')
    'late'
  end
  ok !stale && c.get('a') == 'between', 'cas that lost'
  ok c.incr('i', 5, 0, 10) == 10 && c.incr('i', 5) == 15, 'incr creates, incr'
  ok c.decr('i', 100) == 0, 'decr stops at zero'
  ok c.incr('none', 1).nil?, 'incr of what does not exist'
end

def ending(c)
  ok c.delete('i') && !c.delete('i'), 'delete, and again'
  c.set('soon', '1', 1)
  ok gone_within(c, 'soon', 10), 'an expiry of one second'
  c.set('t', '1', 1000)
  ok c.touch('t', 1) && gone_within(c, 't', 10), 'a touch that shortens'
  c.set('g', '1', 1000)
  ok c.gat('g', 500) == '1', 'gat'
  ok c.version.values.first.start_with?('1.6.'), 'version'
  ok c.stats.values.first['curr_items'].to_i.positive?, 'stats'
  ok c.stats(:items).values.first.keys.any? { |k| k =~ /\Aitems:\d+:number\z/ }, 'stats items'
  ok c.flush_all && c.get('big', raw: true).nil?, 'flush_all'
end

host, port, protocol, user, password = ARGV
if protocol == 'meta' && Gem::Version.new(Dalli::VERSION) < Gem::Version.new('3.2.0')
  puts "ok - Dalli #{Dalli::VERSION} # SKIP it has no meta protocol"
  exit
end
options = { socket_timeout: 20, socket_max_failures: 0, compress: false, value_max_bytes: 4 << 20, expires_in: 0 }
if ENV['CA_FILE']
  context = OpenSSL::SSL::SSLContext.new
  context.set_params(ca_file: ENV['CA_FILE'], verify_mode: OpenSSL::SSL::VERIFY_PEER, verify_hostname: true)
  options[:ssl_context] = context
end
options[:protocol] = :meta if protocol == 'meta'
options.update(username: user, password: password) if user
client = Dalli::Client.new("#{host}:#{port}", options)
storing(client)
quiet(client)
counting_and_cas(client)
ending(client)
client.close
