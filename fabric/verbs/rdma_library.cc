// SPDX-License-Identifier: BSD-3-Clause
// RDMA's libraries, loaded on first use: most processes use none, and the libraries with their dependencies take a megabyte.
// This unit defines every function of librdmacm and libibverbs that we call; each calls the library's. RDMA starts with an
// event channel: without a library rdma_create_event_channel() fails, and no other call has an object. Any thread.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdint>

#include "base/check.h"
#include "base/loaded_library.h"
#include "fabric/verbs/verbs_device.h"

#undef ibv_query_port
#undef ibv_reg_mr

#define RDMA_FUNCTIONS(X)          \
    X(ibv_ack_cq_events)           \
    X(ibv_alloc_pd)                \
    X(ibv_create_comp_channel)     \
    X(ibv_create_cq)               \
    X(ibv_create_qp)               \
    X(ibv_dealloc_pd)              \
    X(ibv_dereg_mr)                \
    X(ibv_destroy_comp_channel)    \
    X(ibv_destroy_cq)              \
    X(ibv_destroy_qp)              \
    X(ibv_get_cq_event)            \
    X(ibv_get_device_name)         \
    X(ibv_modify_qp)               \
    X(ibv_query_device)            \
    X(ibv_query_port)              \
    X(ibv_query_qp)                \
    X(ibv_reg_mr)                  \
    X(ibv_reg_mr_iova2)            \
    X(ibv_wc_status_str)           \
    X(rdma_accept)                 \
    X(rdma_ack_cm_event)           \
    X(rdma_bind_addr)              \
    X(rdma_connect)                \
    X(rdma_create_event_channel)   \
    X(rdma_create_id)              \
    X(rdma_destroy_event_channel)  \
    X(rdma_destroy_id)             \
    X(rdma_disconnect)             \
    X(rdma_establish)              \
    X(rdma_get_cm_event)           \
    X(rdma_get_src_port)           \
    X(rdma_init_qp_attr)           \
    X(rdma_listen)                 \
    X(rdma_migrate_id)             \
    X(rdma_reject)                 \
    X(rdma_resolve_addr)           \
    X(rdma_resolve_route)          \
    X(rdma_set_option)

namespace {

struct Functions {
#define X(name) decltype(&::name) name = nullptr;
    RDMA_FUNCTIONS(X)
#undef X
    farcached::LoadedLibrary library{"librdmacm.so.1"};  // which needs libibverbs

    Functions() {
#define X(name) library.find(#name, name);
        RDMA_FUNCTIONS(X)
#undef X
    }
};

const Functions& loaded() {
    static const Functions functions;
    return functions;
}

const Functions& rdma() {
    CHECK(loaded().library.error().empty());
    return loaded();
}

}  // namespace

namespace farcached::fabric {

const std::string& rdma_libraries_missing() { return loaded().library.error(); }

}  // namespace farcached::fabric

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
    if (farcached::fabric::rdma_libraries_missing().empty()) return rdma().rdma_create_event_channel();
    errno = ELIBACC;
    return nullptr;
}
void rdma_destroy_event_channel(rdma_event_channel* channel) { rdma().rdma_destroy_event_channel(channel); }
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) { return rdma().rdma_get_cm_event(channel, event); }
int rdma_ack_cm_event(rdma_cm_event* event) { return rdma().rdma_ack_cm_event(event); }

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
    return rdma().rdma_create_id(channel, id, context, space);
}
int rdma_destroy_id(rdma_cm_id* id) { return rdma().rdma_destroy_id(id); }
int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) { return rdma().rdma_migrate_id(id, channel); }
int rdma_set_option(rdma_cm_id* id, int level, int name, void* value, size_t bytes) {
    return rdma().rdma_set_option(id, level, name, value, bytes);
}
int rdma_bind_addr(rdma_cm_id* id, sockaddr* at) { return rdma().rdma_bind_addr(id, at); }
__be16 rdma_get_src_port(rdma_cm_id* id) { return rdma().rdma_get_src_port(id); }
int rdma_listen(rdma_cm_id* id, int backlog) { return rdma().rdma_listen(id, backlog); }
int rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int timeout_ms) {
    return rdma().rdma_resolve_addr(id, from, to, timeout_ms);
}
int rdma_resolve_route(rdma_cm_id* id, int timeout_ms) { return rdma().rdma_resolve_route(id, timeout_ms); }
int rdma_connect(rdma_cm_id* id, rdma_conn_param* how) { return rdma().rdma_connect(id, how); }
int rdma_accept(rdma_cm_id* id, rdma_conn_param* how) { return rdma().rdma_accept(id, how); }
int rdma_reject(rdma_cm_id* id, const void* data, uint8_t bytes) { return rdma().rdma_reject(id, data, bytes); }
int rdma_disconnect(rdma_cm_id* id) { return rdma().rdma_disconnect(id); }
int rdma_establish(rdma_cm_id* id) { return rdma().rdma_establish(id); }
int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* to, int* which) { return rdma().rdma_init_qp_attr(id, to, which); }

const char* ibv_get_device_name(ibv_device* device) { return rdma().ibv_get_device_name(device); }
int ibv_query_device(ibv_context* context, ibv_device_attr* to) { return rdma().ibv_query_device(context, to); }
int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* to) {
    return rdma().ibv_query_port(context, port, to);
}
ibv_pd* ibv_alloc_pd(ibv_context* context) { return rdma().ibv_alloc_pd(context); }
int ibv_dealloc_pd(ibv_pd* domain) { return rdma().ibv_dealloc_pd(domain); }
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* at, size_t bytes, int access) { return rdma().ibv_reg_mr(domain, at, bytes, access); }
ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* at, size_t bytes, uint64_t as, unsigned access) {
    return rdma().ibv_reg_mr_iova2(domain, at, bytes, as, access);
}
int ibv_dereg_mr(ibv_mr* memory) { return rdma().ibv_dereg_mr(memory); }

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) { return rdma().ibv_create_comp_channel(context); }
int ibv_destroy_comp_channel(ibv_comp_channel* channel) { return rdma().ibv_destroy_comp_channel(channel); }
ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* own, ibv_comp_channel* channel, int vector) {
    return rdma().ibv_create_cq(context, entries, own, channel, vector);
}
int ibv_destroy_cq(ibv_cq* queue) { return rdma().ibv_destroy_cq(queue); }
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** own) {
    return rdma().ibv_get_cq_event(channel, queue, own);
}
void ibv_ack_cq_events(ibv_cq* queue, unsigned events) { rdma().ibv_ack_cq_events(queue, events); }
ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* how) { return rdma().ibv_create_qp(domain, how); }
int ibv_destroy_qp(ibv_qp* pair) { return rdma().ibv_destroy_qp(pair); }
int ibv_query_qp(ibv_qp* pair, ibv_qp_attr* to, int which, ibv_qp_init_attr* how) {
    return rdma().ibv_query_qp(pair, to, which, how);
}
int ibv_modify_qp(ibv_qp* pair, ibv_qp_attr* to, int which) { return rdma().ibv_modify_qp(pair, to, which); }
const char* ibv_wc_status_str(ibv_wc_status status) {
    return farcached::fabric::rdma_libraries_missing().empty() ? rdma().ibv_wc_status_str(status) : "unknown";
}

}  // extern "C"
