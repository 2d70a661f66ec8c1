# SPDX-License-Identifier: BSD-3-Clause
# protocol/: bytes and their meaning; layouts that others read. No sockets, no clock.
folder_libraries += protocol/libprotocol.a

protocol_libprotocol_a_SOURCES = \
	protocol/auth.cc \
	protocol/auth.h \
	protocol/binary.cc \
	protocol/binary.h \
	protocol/command_needs.cc \
	protocol/command_needs.h \
	protocol/udp_frame.h \
	protocol/frame.cc \
	protocol/frame.h \
	protocol/frame_layout.h \
	protocol/frame_reply.cc \
	protocol/frame_reply.h \
	protocol/frame_request.cc \
	protocol/frame_request.h \
	protocol/frame_writer.cc \
	protocol/frame_writer.h \
	protocol/handshake.cc \
	protocol/handshake.h \
	protocol/key_list.h \
	protocol/layout.h \
	protocol/layout_hash.h \
	protocol/meta.cc \
	protocol/meta.h \
	protocol/op.h \
	protocol/owned_keys.cc \
	protocol/owned_keys.h \
	protocol/source_reply.cc \
	protocol/source_reply.h \
	protocol/spilled.h \
	protocol/text.cc \
	protocol/text.h \
	protocol/text_keys.h \
	protocol/wire.h \
	protocol/words.h
