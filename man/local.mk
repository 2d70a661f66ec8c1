# SPDX-License-Identifier: BSD-3-Clause
# man/: the man pages. Options and statistics are printed by what was built, so that there is one list of each.
man_MANS += man/farcached.1
EXTRA_DIST += man/farcached.1.in
CLEANFILES += man/farcached.1 man/options.roff man/counters.roff

noinst_PROGRAMS += man/counters_man
man_counters_man_SOURCES = man/counters_man.cc

# [V]: else configure would fill it in here.
man/farcached.1: man/farcached.1.in farcached$(EXEEXT) man/counters_man$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) man && \
	./farcached$(EXEEXT) --print-options-man >man/options.roff && \
	man/counters_man$(EXEEXT) >man/counters.roff && \
	$(SED) -e 's/@[V]ERSION@/$(PACKAGE_VERSION)/' \
		-e '/^@OPTIONS@$$/{' -e 'r man/options.roff' -e 'd' -e '}' \
		-e '/^@COUNTERS@$$/{' -e 'r man/counters.roff' -e 'd' -e '}' \
		$(top_srcdir)/man/farcached.1.in >$@.new && \
	mv $@.new $@
