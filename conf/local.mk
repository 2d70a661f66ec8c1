# SPDX-License-Identifier: BSD-3-Clause
# conf/: the option tables and the reading of the configuration.
folder_libraries += conf/libconf.a

conf_libconf_a_SOURCES = \
	conf/addresses.cc \
	conf/addresses.h \
	conf/advertise.cc \
	conf/advertise.h \
	conf/check_settings.cc \
	conf/check_settings.h \
	conf/comma_list.h \
	conf/command_line.cc \
	conf/command_line.h \
	conf/completion.cc \
	conf/config_file.cc \
	conf/config_file.h \
	conf/config_text.cc \
	conf/discover.cc \
	conf/discover.h \
	conf/disk_options.cc \
	conf/disk_options.h \
	conf/etcd_url.cc \
	conf/etcd_url.h \
	conf/exposure.cc \
	conf/exposure.h \
	conf/help.cc \
	conf/help.h \
	conf/kinds.cc \
	conf/kinds.h \
	conf/node_option_table.cc \
	conf/option.cc \
	conf/option.h \
	conf/option_table.cc \
	conf/permissions.cc \
	conf/permissions.h \
	conf/program.h \
	conf/proxy_option_table.cc \
	conf/settings.h \
	conf/words.h

# Samples; a test loads each.
examplesdir = $(docdir)/examples
dist_examples_DATA = conf/farcached.toml conf/farnode.toml
