# SPDX-License-Identifier: BSD-3-Clause
# ctl/: farctl, the operator's program.
folder_libraries += ctl/libctl.a

ctl_libctl_a_SOURCES = \
	ctl/arguments.cc \
	ctl/arguments.h \
	ctl/command_line.cc \
	ctl/command_line.h \
	ctl/console.cc \
	ctl/console.h \
	ctl/console_words.cc \
	ctl/doctor.cc \
	ctl/doctor.h \
	ctl/format.cc \
	ctl/format.h \
	ctl/machine.cc \
	ctl/machine.h \
	ctl/members.cc \
	ctl/members.h \
	ctl/plan.cc \
	ctl/plan.h \
	ctl/plan_text.cc \
	ctl/prefix.cc \
	ctl/prefix.h \
	ctl/queue_pairs.cc \
	ctl/queue_pairs.h \
	ctl/run.cc \
	ctl/run.h \
	ctl/server.cc \
	ctl/server.h \
	ctl/show.cc \
	ctl/show.h \
	ctl/slow_log.cc \
	ctl/slow_log.h \
	ctl/survey.cc \
	ctl/survey.h \
	ctl/terminal.cc \
	ctl/terminal.h \
	ctl/top.cc \
	ctl/top.h \
	ctl/wait.cc \
	ctl/wait.h

bin_PROGRAMS += farctl
farctl_SOURCES = ctl/main.cc
farctl_LDADD = $(ctl_libraries)
