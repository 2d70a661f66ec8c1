# SPDX-License-Identifier: BSD-3-Clause
# node/: the cache node. Tests compile these sources again with safety rules broken on purpose.
noinst_LIBRARIES += node/libnode.a

node_libnode_a_SOURCES = \
	node/node.h
