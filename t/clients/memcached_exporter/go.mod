// SPDX-License-Identifier: BSD-3-Clause
module farcached/clients/memcached_exporter

go 1.21

require github.com/prometheus/memcached_exporter v0.14.4
