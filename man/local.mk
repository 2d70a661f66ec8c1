# SPDX-License-Identifier: BSD-3-Clause
# man/: the man pages. Options and statistics are printed by what was built, so that there is one list of each.
man_MANS += man/farbench.1 man/farcached.1 man/farctl.1 man/farnode.1
EXTRA_DIST += man/farbench.1.in man/farcached.1.in man/farctl.1.in man/farnode.1.in
CLEANFILES += man/farbench.1 man/farbench.1.commands.roff man/farcached.1 man/farcached.1.options.roff \
	man/farcached.1.counters.roff man/farctl.1 man/farctl.1.commands.roff man/farnode.1 man/farnode.1.options.roff \
	man/farnode.1.counters.roff

noinst_PROGRAMS += man/counters_man
man_counters_man_SOURCES = man/counters_man.cc

# Of the program that the page is of. [V]: else configure would fill it in here.
make_page = $(AM_V_GEN)$(MKDIR_P) man && \
	./$(@F:.1=)$(EXEEXT) --print-options-man >$@.options.roff && \
	man/counters_man$(EXEEXT) $(@F:.1=) >$@.counters.roff && \
	$(SED) -e 's/@[V]ERSION@/$(PACKAGE_VERSION)/' \
		-e '/^@OPTIONS@$$/{' -e 'r $@.options.roff' -e 'd' -e '}' \
		-e '/^@COUNTERS@$$/{' -e 'r $@.counters.roff' -e 'd' -e '}' \
		$(top_srcdir)/$@.in >$@.new && \
	mv $@.new $@

man/farcached.1: man/farcached.1.in farcached$(EXEEXT) man/counters_man$(EXEEXT)
	$(make_page)

man/farnode.1: man/farnode.1.in farnode$(EXEEXT) man/counters_man$(EXEEXT)
	$(make_page)

# Commands and options; there is nothing that these count.
make_command_page = $(AM_V_GEN)$(MKDIR_P) man && \
	./$(@F:.1=)$(EXEEXT) --print-man >$@.commands.roff && \
	$(SED) -e 's/@[V]ERSION@/$(PACKAGE_VERSION)/' \
		-e '/^@COMMANDS@$$/{' -e 'r $@.commands.roff' -e 'd' -e '}' \
		$(top_srcdir)/$@.in >$@.new && \
	mv $@.new $@

man/farctl.1: man/farctl.1.in farctl$(EXEEXT)
	$(make_command_page)

man/farbench.1: man/farbench.1.in farbench$(EXEEXT)
	$(make_command_page)
