# SPDX-License-Identifier: BSD-3-Clause
# daemon/: workers, sessions, listeners, admin; and the program.
noinst_LIBRARIES += daemon/libdaemon.a

daemon_libdaemon_a_SOURCES = \
	daemon/admin.cc \
	daemon/admin.h \
	daemon/detail.cc \
	daemon/detail.h \
	daemon/dump.cc \
	daemon/dump.h \
	daemon/embedded.h \
	daemon/hot_keys.cc \
	daemon/hot_keys.h \
	daemon/space_saving.cc \
	daemon/space_saving.h \
	daemon/host_addresses.cc \
	daemon/host_addresses.h \
	daemon/host_lookups.cc \
	daemon/host_lookups.h \
	daemon/live_settings.cc \
	daemon/live_settings.h \
	daemon/own_stats.h \
	daemon/nodes.cc \
	daemon/nodes.h \
	daemon/nodes_view.h \
	daemon/metrics.cc \
	daemon/metrics.h \
	daemon/node_numbers.cc \
	daemon/node_numbers.h \
	daemon/pending_set.cc \
	daemon/pending_set.h \
	daemon/pointer_survey.cc \
	daemon/pointer_survey.h \
	daemon/proxy_events.cc \
	daemon/proxy_events.h \
	daemon/link_peer.cc \
	daemon/links.cc \
	daemon/links.h \
	daemon/local_peer.h \
	daemon/peer.h \
	daemon/router.cc \
	daemon/router.h \
	daemon/link_peer.h \
	daemon/links_set.cc \
	daemon/server_view.h \
	daemon/latency.cc \
	daemon/latency.h \
	daemon/http_pages.cc \
	daemon/http_pages.h \
	daemon/listen.cc \
	daemon/listen.h \
	daemon/server.cc \
	daemon/server.h \
	daemon/service_status.cc \
	daemon/service_status.h \
	daemon/session.h \
	daemon/session_end.h \
	daemon/session_memory.h \
	daemon/hoards.h \
	daemon/event_io.cc \
	daemon/event_io.h \
	daemon/readiness.h \
	daemon/ring_io.h \
	daemon/socket_io.h \
	daemon/worker.cc \
	daemon/worker.h \
	daemon/worker_replies.cc \
	daemon/worker_room.cc \
	daemon/stats.h \
	daemon/stats_general.cc \
	daemon/stats_items.cc \
	daemon/stats_hot_keys.cc \
	daemon/stats_route.cc \
	daemon/stats_nodes.cc \
	daemon/stats_sample.cc \
	daemon/stats_sample.h \
	daemon/stats_settings.h \
	daemon/stats_words.h \
	daemon/status_json.cc \
	daemon/status_json.h \
	daemon/status_page.h \
	daemon/tune.cc \
	daemon/tune.h \
	daemon/watch_hub.cc \
	daemon/watch_hub.h \
	daemon/engine.cc \
	daemon/engine_binary.cc \
	daemon/engine_binary.h \
	daemon/engine_binary_get.cc \
	daemon/engine_binary_store.cc \
	daemon/engine_ask.h \
	daemon/engine_meta.cc \
	daemon/engine_meta.h \
	daemon/engine_meta_get.cc \
	daemon/reply_queue.cc \
	daemon/reply_queue.h \
	daemon/engine_text.cc \
	daemon/engine_text.h \
	daemon/engine_text_admin.cc \
	daemon/engine_text_get.cc \
	daemon/engine_text_store.cc \
	daemon/engine_watch.cc \
	daemon/engine_watch.h \
	daemon/trace.cc \
	daemon/trace.h \
	daemon/engine.h \
	daemon/watch.h \
	daemon/worker_counters.h

if LIBURING
daemon_libdaemon_a_SOURCES += daemon/ring.cc daemon/ring.h daemon/ring_io.cc daemon/ring_waits.cc daemon/ring_waits.h
else
daemon_libdaemon_a_SOURCES += daemon/ring_absent.cc
endif

# The status page, as it is in the sources, between the quotes of a C++ literal.
nodist_daemon_libdaemon_a_SOURCES = daemon/status_page.cc
CLEANFILES += daemon/status_page.cc
EXTRA_DIST += daemon/status_page.html
daemon/status_page.cc: daemon/status_page.html
	$(AM_V_GEN)$(MKDIR_P) daemon && { \
		echo '#include "daemon/status_page.h"'; \
		echo 'const std::string_view farcached::daemon::status_page = R"status_page('; \
		cat $(srcdir)/daemon/status_page.html; \
		echo ')status_page";'; } >$@.new && mv $@.new $@

bin_PROGRAMS += farcached
farcached_SOURCES = daemon/main.cc
farcached_LDADD = $(LDADD) $(ALLOCATOR_LIBS)
