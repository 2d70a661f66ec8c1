# SPDX-License-Identifier: BSD-3-Clause
# protocol/: bytes and their meaning; layouts that others read. No sockets, no clock.
noinst_LIBRARIES += protocol/libprotocol.a

protocol_libprotocol_a_SOURCES = \
	protocol/base64.cc \
	protocol/base64.h \
	protocol/binary.cc \
	protocol/binary.h \
	protocol/meta.cc \
	protocol/meta.h \
	protocol/text.cc \
	protocol/text.h \
	protocol/text_keys.h \
	protocol/text_number.h \
	protocol/layout.h \
	protocol/op.h \
	protocol/words.h
