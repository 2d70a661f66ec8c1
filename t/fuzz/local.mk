# SPDX-License-Identifier: BSD-3-Clause
# Fuzz targets; t/local.mk says how to add one, and includes this.
# -- Fuzz targets: libFuzzer programs under --enable-fuzz, else replayed and mutated by a small main ---
if FUZZ
fuzz_main =
fuzz_ldflags = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
else
fuzz_main = t/fuzz/replay_main.cc
fuzz_ldflags = $(AM_LDFLAGS)
endif
test_scripts += t/fuzz/fuzz.py
EXTRA_DIST += t/fuzz/replay_main.cc t/fuzz/corpus

# Longer: `make fuzz FUZZ_SECONDS=600`. Per target; see t/fuzz/fuzz.py.
FUZZ_SECONDS = 60
.PHONY: fuzz
fuzz: $(fuzz_targets)
	@$(AM_TESTS_ENVIRONMENT) FUZZ_SECONDS='$(FUZZ_SECONDS)' $(PYTHON) $(top_srcdir)/t/fuzz/fuzz.py

fuzz_targets += t/fuzz/text t/fuzz/meta
t_fuzz_text_SOURCES = t/fuzz/text.cc t/fuzz/text_session.h t/lib/sent_bytes.h t/unit/daemon/text_fixture.h $(fuzz_main)
t_fuzz_text_LDFLAGS = $(fuzz_ldflags)
t_fuzz_meta_SOURCES = t/fuzz/meta.cc t/fuzz/text_session.h t/lib/sent_bytes.h t/unit/daemon/text_fixture.h $(fuzz_main)
t_fuzz_meta_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/config
t_fuzz_config_SOURCES = t/fuzz/config.cc $(fuzz_main)
t_fuzz_config_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/binary
t_fuzz_binary_SOURCES = t/fuzz/binary.cc t/unit/daemon/binary_fixture.h t/unit/protocol/binary_packets.h t/lib/sent_bytes.h \
	t/unit/daemon/text_fixture.h $(fuzz_main)
t_fuzz_binary_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/frame
t_fuzz_frame_SOURCES = t/fuzz/frame.cc $(frame_headers) $(fuzz_main)
t_fuzz_frame_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/memory_file
t_fuzz_memory_file_SOURCES = t/fuzz/memory_file.cc $(fuzz_main)
t_fuzz_memory_file_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/disk_file
t_fuzz_disk_file_SOURCES = t/fuzz/disk_file.cc t/unit/node/disk_fixture.h $(fuzz_main)
t_fuzz_disk_file_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/slots
t_fuzz_slots_SOURCES = t/fuzz/slots.cc $(fuzz_main)
t_fuzz_slots_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/report
t_fuzz_report_SOURCES = t/fuzz/report.cc t/unit/service/service_fixture.h $(frame_headers) $(fuzz_main)
t_fuzz_report_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/datagrams
t_fuzz_datagrams_SOURCES = t/fuzz/datagrams.cc t/unit/daemon/datagram_fixture.h t/unit/daemon/text_fixture.h t/lib/sent_bytes.h \
	$(fuzz_main)
t_fuzz_datagrams_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/tls
t_fuzz_tls_SOURCES = t/fuzz/tls.cc t/unit/daemon/text_fixture.h t/lib/sent_bytes.h $(fuzz_main)
t_fuzz_tls_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/member
t_fuzz_member_SOURCES = t/fuzz/member.cc $(fuzz_main)
t_fuzz_member_LDFLAGS = $(fuzz_ldflags)
fuzz_targets += t/fuzz/auth
t_fuzz_auth_SOURCES = t/fuzz/auth.cc $(fuzz_main)
t_fuzz_auth_LDFLAGS = $(fuzz_ldflags)
