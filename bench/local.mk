# SPDX-License-Identifier: BSD-3-Clause
# bench/: farbench, and the scripts that compare.
