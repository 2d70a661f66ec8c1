# SPDX-License-Identifier: BSD-3-Clause
# contrib/: the two commands.
EXTRA_DIST += \
	contrib/check \
	contrib/common.sh \
	contrib/try
