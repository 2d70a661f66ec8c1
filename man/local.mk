# SPDX-License-Identifier: BSD-3-Clause
# man/: the man pages and what shells complete. Options and statistics are printed by what was built, so that there is
# one list of each.
man_MANS += man/farbench.1 man/farcached.1 man/farcached.toml.5 man/farcached-protocol.7 man/farctl.1 man/farnode.1
EXTRA_DIST += man/farbench.1.in man/farcached.1.in man/farcached.toml.5.in man/farcached-protocol.7.in man/farctl.1.in \
	man/farnode.1.in man/fold.awk
CLEANFILES += man/farcached-protocol.7 man/farbench.1 man/farbench.1.commands.roff man/farcached.1 man/farcached.1.options.roff \
	man/farcached.1.counters.roff man/farctl.1 man/farctl.1.commands.roff man/farnode.1 man/farnode.1.options.roff \
	man/farnode.1.counters.roff

noinst_PROGRAMS += man/counters_man
man_counters_man_SOURCES = man/counters_man.cc

fold_page = $(AWK) -f $(top_srcdir)/man/fold.awk $@.filled >$@.new && rm $@.filled && mv $@.new $@

# Of the program that the page is of. [V]: else configure would fill it in here.
make_page = $(AM_V_GEN)$(MKDIR_P) man && \
	./$(@F:.1=)$(EXEEXT) --print-options-man >$@.options.roff && \
	man/counters_man$(EXEEXT) $(@F:.1=) >$@.counters.roff && \
	$(SED) -e 's/@[V]ERSION@/$(PACKAGE_VERSION)/' \
		-e '/^@OPTIONS@$$/{' -e 'r $@.options.roff' -e 'd' -e '}' \
		-e '/^@COUNTERS@$$/{' -e 'r $@.counters.roff' -e 'd' -e '}' \
		$(top_srcdir)/$@.in >$@.filled && \
	$(fold_page)

man/farcached.1: man/farcached.1.in farcached$(EXEEXT) man/counters_man$(EXEEXT) man/fold.awk
	$(make_page)

man/farnode.1: man/farnode.1.in farnode$(EXEEXT) man/counters_man$(EXEEXT) man/fold.awk
	$(make_page)

# Commands and options; there is nothing that these count.
make_command_page = $(AM_V_GEN)$(MKDIR_P) man && \
	./$(@F:.1=)$(EXEEXT) --print-man >$@.commands.roff && \
	$(SED) -e 's/@[V]ERSION@/$(PACKAGE_VERSION)/' \
		-e '/^@COMMANDS@$$/{' -e 'r $@.commands.roff' -e 'd' -e '}' \
		$(top_srcdir)/$@.in >$@.filled && \
	$(fold_page)

man/farctl.1: man/farctl.1.in farctl$(EXEEXT) man/fold.awk
	$(make_command_page)

man/farbench.1: man/farbench.1.in farbench$(EXEEXT) man/fold.awk
	$(make_command_page)

man/farcached.toml.5: man/farcached.toml.5.in farcached$(EXEEXT) farnode$(EXEEXT) man/fold.awk
	$(AM_V_GEN)$(MKDIR_P) man && \
	./farcached$(EXEEXT) --print-config-man >$@.keys.roff && \
	./farnode$(EXEEXT) --print-config-man >$@.node_keys.roff && \
	$(SED) -e 's/@[V]ERSION@/$(PACKAGE_VERSION)/' \
		-e '/^@KEYS@$$/{' -e 'r $@.keys.roff' -e 'd' -e '}' \
		-e '/^@NODE_KEYS@$$/{' -e 'r $@.node_keys.roff' -e 'd' -e '}' \
		$(top_srcdir)/$@.in >$@.filled && \
	$(fold_page)

man/farcached-protocol.7: man/farcached-protocol.7.in man/fold.awk
	$(AM_V_GEN)$(MKDIR_P) man && \
	$(SED) -e 's/@[V]ERSION@/$(PACKAGE_VERSION)/' $(top_srcdir)/$@.in >$@.filled && \
	$(fold_page)

# Where bash-completion and zsh look.
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
bashcompletion_DATA = man/bash/farbench man/bash/farcached man/bash/farctl man/bash/farnode
zshcompletion_DATA = man/zsh/_farbench man/zsh/_farcached man/zsh/_farctl man/zsh/_farnode
CLEANFILES += man/farcached.toml.5 man/farcached.toml.5.keys.roff man/farcached.toml.5.node_keys.roff \
	$(bashcompletion_DATA) $(zshcompletion_DATA)

make_bash_completion = $(AM_V_GEN)$(MKDIR_P) man/bash && ./$(@F)$(EXEEXT) --print-completion-bash >$@.new && mv $@.new $@
make_zsh_completion = $(AM_V_GEN)$(MKDIR_P) man/zsh && ./$(@F:_%=%)$(EXEEXT) --print-completion-zsh >$@.new && mv $@.new $@

man/bash/farbench: farbench$(EXEEXT)
	$(make_bash_completion)
man/bash/farcached: farcached$(EXEEXT)
	$(make_bash_completion)
man/bash/farctl: farctl$(EXEEXT)
	$(make_bash_completion)
man/bash/farnode: farnode$(EXEEXT)
	$(make_bash_completion)
man/zsh/_farbench: farbench$(EXEEXT)
	$(make_zsh_completion)
man/zsh/_farcached: farcached$(EXEEXT)
	$(make_zsh_completion)
man/zsh/_farctl: farctl$(EXEEXT)
	$(make_zsh_completion)
man/zsh/_farnode: farnode$(EXEEXT)
	$(make_zsh_completion)
