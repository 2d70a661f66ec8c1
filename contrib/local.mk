# SPDX-License-Identifier: BSD-3-Clause
# contrib/: the commands.
EXTRA_DIST += \
	contrib/check \
	contrib/common.sh \
	contrib/grafana/farcached.json \
	contrib/prometheus/farcached.rules.yml \
	contrib/prometheus/prometheus.yml \
	contrib/try \
	contrib/vm
