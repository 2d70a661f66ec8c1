# SPDX-License-Identifier: BSD-3-Clause
# t/faulty/: programs that break on purpose; t/local.mk includes this.
#
# The libraries once more, for the checkers and the two daemons. The environment selects broken rules, threads that are
# held up and faults of connections (base/broken.h, t/faulty/faulty.cc). Of base/, conf/ and process/ only the sources
# that include base/broken.h differ (t/source/tidy.py). With --enable-faulty all programs have the fault points: no library is
# compiled twice.
faulty_cppflags = $(AM_CPPFLAGS) -DFARCACHED_FAULTY
t_faulty_libfaulty_a_CPPFLAGS = $(faulty_cppflags)
t_faulty_libfaulty_a_SOURCES = t/faulty/faulty.cc
if FAULTY
noinst_LIBRARIES += t/faulty/libfaulty.a
faulty_ldadd = $(LDADD)
else
check_LIBRARIES = t/faulty/libfaulty.a
if JUMBO
t_faulty_libfaulty_a_SOURCES += $(jumbo_alone)
nodist_t_faulty_libfaulty_a_SOURCES = $(jumbo_faulty)
faulty_ldadd = t/faulty/libfaulty.a jumbo/libjumbo.a $(system_libraries)
else
t_faulty_libfaulty_a_SOURCES += process/crash_report.cc $(daemon_libdaemon_a_SOURCES) $(proxy_libproxy_a_SOURCES) \
	$(node_libnode_a_SOURCES) $(fabric_libfabric_a_SOURCES) $(protocol_libprotocol_a_SOURCES)
nodist_t_faulty_libfaulty_a_SOURCES = $(nodist_daemon_libdaemon_a_SOURCES)
faulty_ldadd = t/faulty/libfaulty.a process/libprocess.a conf/libconf.a base/libbase.a $(system_libraries)
endif
endif

faulty_programs = t/faulty/node_safety t/faulty/node_in_place t/faulty/node_held t/faulty/node_lease t/faulty/pointer_table_safety \
	t/faulty/node_link_safety t/faulty/pointer_read t/faulty/node_reads t/faulty/owner t/faulty/service_auth t/faulty/verbs_slots \
	t/faulty/fence t/faulty/fence_homes t/faulty/node_holds t/faulty/node_uniques
EXTRA_PROGRAMS += $(faulty_programs)
CLEANFILES += $(faulty_programs)
check_PROGRAMS += t/faulty/farcached t/faulty/farnode t/faulty/container_vandal t/faulty/pointer_vandal
t_faulty_fence_SOURCES = $(t_unit_daemon_fence_SOURCES)
t_faulty_fence_CPPFLAGS = $(faulty_cppflags)
t_faulty_fence_LDADD = $(faulty_ldadd)
t_faulty_fence_homes_SOURCES = $(t_unit_daemon_fence_homes_SOURCES)
t_faulty_fence_homes_CPPFLAGS = $(faulty_cppflags)
t_faulty_fence_homes_LDADD = $(faulty_ldadd)
t_faulty_node_safety_SOURCES = $(t_unit_node_safety_SOURCES)
t_faulty_node_safety_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_safety_LDADD = $(faulty_ldadd)
t_faulty_node_in_place_SOURCES = $(t_unit_node_in_place_SOURCES)
t_faulty_node_in_place_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_in_place_LDADD = $(faulty_ldadd)
t_faulty_node_held_SOURCES = $(t_unit_node_held_SOURCES)
t_faulty_node_held_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_held_LDADD = $(faulty_ldadd)
t_faulty_node_holds_SOURCES = $(t_unit_node_holds_SOURCES)
t_faulty_node_holds_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_holds_LDADD = $(faulty_ldadd)
t_faulty_node_uniques_SOURCES = $(t_unit_node_uniques_SOURCES)
t_faulty_node_uniques_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_uniques_LDADD = $(faulty_ldadd)
t_faulty_node_lease_SOURCES = $(t_unit_node_lease_SOURCES)
t_faulty_node_lease_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_lease_LDADD = $(faulty_ldadd)
t_faulty_pointer_table_safety_SOURCES = $(t_unit_proxy_pointer_table_safety_SOURCES)
t_faulty_pointer_table_safety_CPPFLAGS = $(faulty_cppflags)
t_faulty_pointer_table_safety_LDADD = $(faulty_ldadd)
t_faulty_node_link_safety_SOURCES = $(t_unit_proxy_node_link_safety_SOURCES)
t_faulty_node_link_safety_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_link_safety_LDADD = $(faulty_ldadd)
t_faulty_pointer_read_SOURCES = $(t_unit_proxy_pointer_read_SOURCES)
t_faulty_pointer_read_CPPFLAGS = $(faulty_cppflags)
t_faulty_pointer_read_LDADD = $(faulty_ldadd)
t_faulty_node_reads_SOURCES = $(t_unit_node_reads_SOURCES)
t_faulty_node_reads_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_reads_LDADD = $(faulty_ldadd)
t_faulty_owner_SOURCES = $(t_unit_fabric_owner_SOURCES)
t_faulty_owner_CPPFLAGS = $(faulty_cppflags)
t_faulty_owner_LDADD = $(faulty_ldadd)
t_faulty_service_auth_SOURCES = $(t_unit_service_service_auth_SOURCES)
t_faulty_service_auth_CPPFLAGS = $(faulty_cppflags)
t_faulty_service_auth_LDADD = $(faulty_ldadd)
t_faulty_verbs_slots_SOURCES = $(t_unit_fabric_verbs_slots_SOURCES)
t_faulty_verbs_slots_CPPFLAGS = $(faulty_cppflags)
t_faulty_verbs_slots_LDADD = $(faulty_ldadd)
t_faulty_node_restart_SOURCES = t/unit/node/restart.cc t/unit/node/restart_fixture.h t/lib/tap.h
t_faulty_node_restart_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_restart_LDADD = $(faulty_ldadd)
check_PROGRAMS += t/faulty/node_disk t/faulty/node_disk_restart t/faulty/node_peer t/faulty/node_restart
TESTS += t/faulty/node_disk t/faulty/node_peer
t_faulty_node_peer_SOURCES = $(t_unit_node_peer_SOURCES)
t_faulty_node_peer_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_peer_LDADD = $(faulty_ldadd)
t_faulty_node_disk_restart_SOURCES = t/unit/node/disk_restart.cc t/unit/node/disk_fixture.h t/lib/tap.h
t_faulty_node_disk_restart_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_disk_restart_LDADD = $(faulty_ldadd)
t_faulty_node_disk_SOURCES = $(t_unit_node_disk_SOURCES)
t_faulty_node_disk_CPPFLAGS = $(faulty_cppflags)
t_faulty_node_disk_LDADD = $(faulty_ldadd)
t_faulty_farcached_SOURCES = $(farcached_SOURCES)
t_faulty_farcached_CPPFLAGS = $(faulty_cppflags)
t_faulty_farcached_LDADD = $(faulty_ldadd) $(ALLOCATOR_LIBS)
t_faulty_farnode_SOURCES = $(farnode_SOURCES)
t_faulty_farnode_CPPFLAGS = $(faulty_cppflags)
t_faulty_farnode_LDADD = $(faulty_ldadd) $(ALLOCATOR_LIBS)
t_faulty_container_vandal_SOURCES = t/faulty/container_vandal.cc t/unit/fabric/shm_fixture.h t/unit/fabric/channel_fixture.h \
	t/lib/tap.h
t_faulty_pointer_vandal_SOURCES = t/faulty/pointer_vandal.cc t/unit/proxy/pointer_table_fixture.h t/lib/tap.h
test_scripts += t/faulty/broken_rules.py t/faulty/broken_warm_up.py
t/faulty/broken_rules.log: $(faulty_programs)
