# SPDX-License-Identifier: BSD-3-Clause
# process/: what a daemon is to the system it runs on. Used by farcached and farnode.
folder_libraries += process/libprocess.a

process_libprocess_a_SOURCES = \
	process/admin_socket.cc \
	process/admin_socket.h \
	process/certificate.cc \
	process/certificate.h \
	process/crash_report.cc \
	process/crash_report.h \
	process/fatal.cc \
	process/fatal.h \
	process/http_access.cc \
	process/http_access.h \
	process/http_listener.cc \
	process/http_listener.h \
	process/http_servers.cc \
	process/http_servers.h \
	process/json_text.cc \
	process/json_text.h \
	process/kernel_tls.cc \
	process/kernel_tls.h \
	process/log.cc \
	process/log.h \
	process/node_time.cc \
	process/node_time.h \
	process/process.cc \
	process/process.h \
	process/reloader.cc \
	process/reloader.h \
	process/secret_file.cc \
	process/secret_file.h \
	process/service_manager.cc \
	process/service_manager.h \
	process/socket_diag.cc \
	process/socket_diag.h \
	process/socket_holder.cc \
	process/socket_holder.h \
	process/supervisor.cc \
	process/supervisor.h \
	process/system_calls.cc \
	process/system_calls.h
