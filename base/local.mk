# SPDX-License-Identifier: BSD-3-Clause
# base/: contracts, counters, clocks, buffers. No I/O, but for /proc. One file per line, sorted; headers too.
folder_libraries += base/libbase.a

base_libbase_a_SOURCES = \
	base/borrowed_bytes.h \
	base/broken.h \
	base/check.cc \
	base/check.h \
	base/command_class.h \
	base/counters.h \
	base/enum_text.h \
	base/function_ref.h \
	base/hash.cc \
	base/hash.h \
	base/host.cc \
	base/host.h \
	base/key_place.cc \
	base/key_place.h \
	base/limits.h \
	base/loaded_library.cc \
	base/loaded_library.h \
	base/mapping.cc \
	base/mapping.h \
	base/metrics_text.cc \
	base/metrics_text.h \
	base/nearest.cc \
	base/nearest.h \
	base/node_clock.h \
	base/out_buffer.cc \
	base/out_buffer.h \
	base/peer_address.h \
	base/placement_words.h \
	base/policy_kind.h \
	base/prefetch.h \
	base/random_word.h \
	base/recorder.cc \
	base/recorder.h \
	base/result.h \
	base/rpc_mode.h \
	base/sanitizers.h \
	base/secret.cc \
	base/secret.h \
	base/shared_epoch.h \
	base/stat_row.h
