# SPDX-License-Identifier: BSD-3-Clause
# man/: the man pages.
