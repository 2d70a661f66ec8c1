# SPDX-License-Identifier: BSD-3-Clause
# contrib/: the commands.
EXTRA_DIST += \
	contrib/check \
	contrib/common.sh \
	contrib/try \
	contrib/vm
