# SPDX-License-Identifier: BSD-3-Clause
# jumbo/: the default build. It compiles the sources of each folder as one generated file, which includes them, so that headers
# are parsed once per folder. --disable-jumbo compiles each source by itself. The generated files are in the build folder only. Two
# sources of a folder must not define the same file-local name; jumbo_alone has the exceptions.

# A generated file a_b.cc has the sources below a/b/, except those of generated files with longer names. The largest come first.
jumbo_faulty = \
	jumbo/daemon_commands.cc \
	jumbo/daemon_engine.cc \
	jumbo/daemon_session.cc \
	jumbo/daemon_steps.cc \
	jumbo/daemon_stats.cc \
	jumbo/node.cc \
	jumbo/fabric.cc \
	jumbo/proxy.cc \
	jumbo/daemon_farcached.cc \
	jumbo/daemon_farnode.cc \
	jumbo/daemon_remote.cc \
	jumbo/daemon_discovery.cc \
	jumbo/protocol.cc
jumbo_sources = \
	$(jumbo_faulty) \
	jumbo/daemon_http.cc \
	jumbo/process.cc \
	jumbo/conf.cc \
	jumbo/ctl.cc \
	jumbo/base.cc
jumbo_bench = \
	jumbo/bench_transport.cc \
	jumbo/bench_load.cc \
	jumbo/bench_hitratio.cc \
	jumbo/bench_reports.cc \
	jumbo/bench_rnic.cc \
	jumbo/bench_capacity.cc \
	jumbo/bench_compare.cc \
	jumbo/bench_buffer.cc \
	jumbo/bench.cc
# On their speed no test depends: contrib/check builds them without optimization for sanitizers, in less than half of the time.
jumbo_cold = $(jumbo_bench) \
	jumbo/daemon_discovery.cc \
	jumbo/daemon_farcached.cc \
	jumbo/daemon_http.cc \
	jumbo/daemon_stats.cc \
	jumbo/process.cc \
	jumbo/conf.cc \
	jumbo/ctl.cc
.PHONY: jumbo-cold
jumbo-cold: $(jumbo_cold:.cc=.$(OBJEXT))
# t/faulty/libfaulty.a has jumbo_faulty and jumbo_alone once more.
jumbo_alone = process/crash_report.cc fabric/verbs/rdma_library.cc

EXTRA_LIBRARIES =
if JUMBO
noinst_LIBRARIES += jumbo/libjumbo.a
EXTRA_LIBRARIES += $(folder_libraries)
else
noinst_LIBRARIES += $(folder_libraries)
EXTRA_LIBRARIES += jumbo/libjumbo.a
endif
jumbo_libjumbo_a_SOURCES = $(jumbo_alone)
nodist_jumbo_libjumbo_a_SOURCES = $(jumbo_sources) $(nodist_daemon_libdaemon_a_SOURCES)

jumbo_all = $(filter-out $(jumbo_alone),$(filter %.cc,$(base_libbase_a_SOURCES) $(protocol_libprotocol_a_SOURCES) \
	$(fabric_libfabric_a_SOURCES) $(node_libnode_a_SOURCES) $(proxy_libproxy_a_SOURCES) $(conf_libconf_a_SOURCES) \
	$(process_libprocess_a_SOURCES) $(daemon_libdaemon_a_SOURCES) $(ctl_libctl_a_SOURCES) $(bench_sources)))
jumbo_folder = $(subst _,/,$(basename $(@F)))
jumbo_longer = $(foreach file,$(filter jumbo/$(basename $(@F))_%.cc,$(jumbo_sources) $(jumbo_bench)),$(subst \
	_,/,$(basename $(notdir $(file))))/%)
$(jumbo_sources) $(jumbo_bench): Makefile
	@$(MKDIR_P) jumbo && printf '#include "%s"\n' \
		$(filter-out $(jumbo_longer),$(filter $(jumbo_folder)/%,$(jumbo_all))) >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
CLEANFILES += $(jumbo_sources) $(jumbo_bench)

# For contrib/check: headers that clang++ precompiles. headers.pch has those that unit programs include, which then compile in half
# of the time. It hides a missing #include. standard.pch has those of the standard library alone; t/source/tidy.py finds missing
# ones.
# Use: CXX='clang++ -include-pch jumbo/headers.pch -fpch-instantiate-templates'
jumbo/headers.h: Makefile
	@$(MKDIR_P) jumbo && cd $(srcdir) && grep -hE '^#include (<|"(base|conf|ctl|daemon|fabric|node|process|protocol|proxy)/)' \
		t/unit/*/*.cc t/unit/*/*.h | LC_ALL=C sort -u >'$(abs_builddir)/$@'
jumbo/standard.h: Makefile
	@$(MKDIR_P) jumbo && cd $(srcdir) && grep -hE '^#include <[a-z_]+>$$' base/*.h node/*/*.h daemon/*/*.h proxy/*.h | \
		LC_ALL=C sort -u >'$(abs_builddir)/$@'
jumbo/headers.pch jumbo/standard.pch: %.pch: %.h
	$(CXXCOMPILE) -MD -MP -MF $*.d -x c++-header -fpch-instantiate-templates -o $@ $<
-include jumbo/headers.d jumbo/standard.d
CLEANFILES += jumbo/headers.h jumbo/headers.pch jumbo/headers.d jumbo/standard.h jumbo/standard.pch jumbo/standard.d
