# SPDX-License-Identifier: BSD-3-Clause
# daemon/: the two daemons. ARCHITECTURE.md says what is in each sub-folder.
folder_libraries += daemon/libdaemon.a

daemon_libdaemon_a_SOURCES = \
	daemon/commands/asking.h \
	daemon/commands/binary_auth.cc \
	daemon/commands/binary_engine.cc \
	daemon/commands/binary_engine.h \
	daemon/commands/binary_get.cc \
	daemon/commands/binary_store.cc \
	daemon/commands/cluster_list.h \
	daemon/commands/meta_engine.cc \
	daemon/commands/meta_engine.h \
	daemon/commands/meta_get.cc \
	daemon/commands/passwords.cc \
	daemon/commands/passwords.h \
	daemon/commands/sasl.cc \
	daemon/commands/sasl.h \
	daemon/commands/text_admin.cc \
	daemon/commands/text_auth.cc \
	daemon/commands/text_engine.cc \
	daemon/commands/text_engine.h \
	daemon/commands/text_get.cc \
	daemon/commands/text_store.cc \
	daemon/commands/watch_lines.cc \
	daemon/commands/watch_lines.h \
	daemon/discovery/answers.cc \
	daemon/discovery/answers.h \
	daemon/discovery/board.cc \
	daemon/discovery/board.h \
	daemon/discovery/etcd_client.cc \
	daemon/discovery/etcd_client.h \
	daemon/discovery/etcd_messages.cc \
	daemon/discovery/etcd_messages.h \
	daemon/discovery/etcd_registration.cc \
	daemon/discovery/etcd_registration.h \
	daemon/discovery/etcd_source.cc \
	daemon/discovery/etcd_source.h \
	daemon/discovery/json_fields.cc \
	daemon/discovery/json_fields.h \
	daemon/discovery/keys_of_others.cc \
	daemon/discovery/keys_of_others.h \
	daemon/discovery/member.cc \
	daemon/discovery/member.h \
	daemon/discovery/member_book.cc \
	daemon/discovery/member_book.h \
	daemon/discovery/password_file.cc \
	daemon/discovery/password_file.h \
	daemon/discovery/registration_history.h \
	daemon/discovery/registration_right.h \
	daemon/discovery/sent_lists.cc \
	daemon/discovery/sent_lists.h \
	daemon/discovery/shown.h \
	daemon/discovery/source.cc \
	daemon/discovery/source.h \
	daemon/engine/borrowed_link.cc \
	daemon/engine/borrowed_link.h \
	daemon/engine/courier.cc \
	daemon/engine/courier.h \
	daemon/engine/disk_gets.h \
	daemon/engine/engine.cc \
	daemon/engine/engine.h \
	daemon/engine/fencer.cc \
	daemon/engine/fencer.h \
	daemon/engine/followed_fence.h \
	daemon/engine/hot_reads.h \
	daemon/engine/leaving_peers.cc \
	daemon/engine/leaving_peers.h \
	daemon/engine/link_peer.cc \
	daemon/engine/link_peer.h \
	daemon/engine/link_shared.h \
	daemon/engine/links.cc \
	daemon/engine/links.h \
	daemon/engine/mailroom.cc \
	daemon/engine/mailroom.h \
	daemon/engine/mapped_memory.cc \
	daemon/engine/mapped_memory.h \
	daemon/engine/own_link.cc \
	daemon/engine/own_link.h \
	daemon/engine/owned_request.h \
	daemon/engine/peer_set.cc \
	daemon/engine/peer_set.h \
	daemon/engine/permissions.cc \
	daemon/engine/permissions.h \
	daemon/engine/postponed_requests.cc \
	daemon/engine/postponed_requests.h \
	daemon/engine/readiness.h \
	daemon/engine/reply_gatherer.cc \
	daemon/engine/reply_gatherer.h \
	daemon/engine/reply_queue.cc \
	daemon/engine/reply_queue.h \
	daemon/engine/router.cc \
	daemon/engine/router.h \
	daemon/engine/session_memory.h \
	daemon/farcached/acceptor.cc \
	daemon/farcached/acceptor.h \
	daemon/farcached/admin.cc \
	daemon/farcached/admin.h \
	daemon/farcached/announcement.cc \
	daemon/farcached/announcement.h \
	daemon/farcached/discovered.cc \
	daemon/farcached/discovered.h \
	daemon/farcached/files.cc \
	daemon/farcached/files.h \
	daemon/farcached/http_pages.cc \
	daemon/farcached/http_pages.h \
	daemon/farcached/part_options.cc \
	daemon/farcached/part_options.h \
	daemon/farcached/run.cc \
	daemon/farcached/run.h \
	daemon/farcached/server.cc \
	daemon/farcached/server.h \
	daemon/farcached/tune.cc \
	daemon/farcached/udp_sockets.cc \
	daemon/farcached/udp_sockets.h \
	daemon/farnode/admin.cc \
	daemon/farnode/admin.h \
	daemon/farnode/http_pages.cc \
	daemon/farnode/http_pages.h \
	daemon/farnode/key_handover.h \
	daemon/farnode/loop.cc \
	daemon/farnode/loop.h \
	daemon/farnode/loop_inbox.cc \
	daemon/farnode/loop_inbox.h \
	daemon/farnode/registration.cc \
	daemon/farnode/registration.h \
	daemon/farnode/run.cc \
	daemon/farnode/run.h \
	daemon/farnode/server.cc \
	daemon/farnode/server.h \
	daemon/farnode/spill_link.cc \
	daemon/farnode/spill_link.h \
	daemon/farnode/spill_requests.h \
	daemon/farnode/spill_waits.cc \
	daemon/farnode/spill_waits.h \
	daemon/farnode/unsent_lists.h \
	daemon/http/history.cc \
	daemon/http/history.h \
	daemon/http/shared_pages.cc \
	daemon/http/shared_pages.h \
	daemon/remote/auth_file.cc \
	daemon/remote/auth_file.h \
	daemon/remote/cluster_view.cc \
	daemon/remote/cluster_view.h \
	daemon/remote/fence.cc \
	daemon/remote/fence.h \
	daemon/remote/former_places.cc \
	daemon/remote/former_places.h \
	daemon/remote/host_addresses.cc \
	daemon/remote/host_addresses.h \
	daemon/remote/host_socket.h \
	daemon/remote/link_sums.h \
	daemon/remote/moved_keys.cc \
	daemon/remote/moved_keys.h \
	daemon/remote/node_addresses.cc \
	daemon/remote/node_addresses.h \
	daemon/remote/node_channels.cc \
	daemon/remote/node_channels.h \
	daemon/remote/node_home.cc \
	daemon/remote/node_home.h \
	daemon/remote/node_log.cc \
	daemon/remote/node_log.h \
	daemon/remote/node_pointers.cc \
	daemon/remote/node_pointers.h \
	daemon/remote/node_set.h \
	daemon/remote/nodes.cc \
	daemon/remote/nodes.h \
	daemon/remote/one_node.h \
	daemon/session/datagrams.cc \
	daemon/session/datagrams.h \
	daemon/session/event_io.cc \
	daemon/session/handshake_thread.cc \
	daemon/session/handshake_thread.h \
	daemon/session/ring_io.cc \
	daemon/session/room_keeper.cc \
	daemon/session/room_keeper.h \
	daemon/session/session.cc \
	daemon/session/session.h \
	daemon/session/session_output.cc \
	daemon/session/session_output.h \
	daemon/session/sessions.cc \
	daemon/session/sessions.h \
	daemon/session/sessions_replies.cc \
	daemon/session/socket_io.h \
	daemon/session/tls.cc \
	daemon/session/tls.h \
	daemon/session/tls_layer.cc \
	daemon/session/tls_layer.h \
	daemon/session/worker.cc \
	daemon/session/worker.h \
	daemon/stats/dump.cc \
	daemon/stats/dump.h \
	daemon/stats/fence_shown.h \
	daemon/stats/hot_keys.cc \
	daemon/stats/hot_keys.h \
	daemon/stats/latency.cc \
	daemon/stats/latency.h \
	daemon/stats/members_shown.cc \
	daemon/stats/members_shown.h \
	daemon/stats/metrics.cc \
	daemon/stats/metrics.h \
	daemon/stats/own_stats.h \
	daemon/stats/server_view.h \
	daemon/stats/stats.cc \
	daemon/stats/stats.h \
	daemon/stats/stats_sample.cc \
	daemon/stats/stats_sample.h \
	daemon/stats/watch_hub.cc \
	daemon/stats/watch_hub.h \
	daemon/stats/worker_counters.h \
	daemon/steps/copy_plan.cc \
	daemon/steps/copy_plan.h \
	daemon/steps/key_passes.cc \
	daemon/steps/key_passes.h \
	daemon/steps/key_queues.cc \
	daemon/steps/key_queues.h \
	daemon/steps/missing_copies.h \
	daemon/steps/moved_items.cc \
	daemon/steps/moved_items.h \
	daemon/steps/pair_completion.cc \
	daemon/steps/pair_completion.h \
	daemon/steps/replicas.cc \
	daemon/steps/replicas.h \
	daemon/steps/source_link.cc \
	daemon/steps/source_link.h \
	daemon/steps/stepped_request.cc \
	daemon/steps/stepped_request.h \
	daemon/steps/stepped_requests.cc \
	daemon/steps/stepped_requests.h \
	daemon/steps/warm_up.cc \
	daemon/steps/warm_up.h

if LIBCARES
daemon_libdaemon_a_SOURCES += \
	daemon/discovery/dns_client.cc \
	daemon/discovery/dns_client.h \
	daemon/discovery/dns_source.cc \
	daemon/discovery/dns_source.h
endif

if LIBURING
daemon_libdaemon_a_SOURCES += \
	daemon/session/ring.cc \
	daemon/session/ring.h
endif

# The status page with its script, between the quotes of a C++ literal.
nodist_daemon_libdaemon_a_SOURCES = daemon/http/status_page.cc
CLEANFILES += daemon/http/status_page.cc
EXTRA_DIST += daemon/http/status_page.html daemon/http/status_page.js
daemon/http/status_page.cc: daemon/http/status_page.html daemon/http/status_page.js daemon/local.mk
	$(AM_V_GEN)$(MKDIR_P) daemon/http && { \
		echo '#include "daemon/http/shared_pages.h"'; \
		echo 'const std::string_view farcached::http::status_page = R"status_page('; \
		sed -e '/^@SCRIPT@$$/{r $(srcdir)/daemon/http/status_page.js' -e 'd;}' $(srcdir)/daemon/http/status_page.html; \
		echo ')status_page";'; } >$@.new && mv $@.new $@

bin_PROGRAMS += farcached
farcached_SOURCES = daemon/farcached/main.cc
farcached_LDADD = $(LDADD) $(ALLOCATOR_LIBS)

# The node as a daemon of its own.
bin_PROGRAMS += farnode
farnode_SOURCES = daemon/farnode/main.cc
farnode_LDADD = $(LDADD) $(ALLOCATOR_LIBS)
