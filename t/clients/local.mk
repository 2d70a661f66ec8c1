# SPDX-License-Identifier: BSD-3-Clause
# Real clients and tools: needs registries, so contrib/check runs it and `make check` does not. t/local.mk includes this.
EXTRA_DIST += \
	t/clients/run \
	t/clients/tools.py \
	t/clients/browser.py \
	t/clients/differential.py \
	t/clients/pipelines.py \
	t/clients/pipeline_requests.py \
	t/clients/pipeline_replies.py \
	t/clients/pipeline_differences.py \
	t/clients/observability.py \
	t/clients/status_page.py \
	t/clients/packages \
	t/clients/bmemcached/client.py \
	t/clients/bmemcached/requirements.txt \
	t/clients/emcache/client.py \
	t/clients/emcache/discovery.py \
	t/clients/emcache/requirements.txt \
	t/clients/gomemcache/go.mod \
	t/clients/gomemcache/go.sum \
	t/clients/gomemcache/main.go \
	t/clients/memcache-client/client.js \
	t/clients/memcache-client/package-lock.json \
	t/clients/memcache-client/package.json \
	t/clients/memcached_exporter/go.mod \
	t/clients/memcached_exporter/go.sum \
	t/clients/memjs/client.js \
	t/clients/memjs/package-lock.json \
	t/clients/memjs/package.json \
	t/clients/php-memcached/client.php \
	t/clients/pylibmc/client.py \
	t/clients/pymemcache/client.py \
	t/clients/pymemcache/requirements.txt \
	t/clients/ruby-dalli/client.rb
