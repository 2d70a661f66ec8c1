// SPDX-License-Identifier: BSD-3-Clause
#include "fabric/verbs/verbs_pair.h"

#include <cerrno>
#include <string>

namespace farcached::fabric {

namespace {

// The attributes of rdma_init_qp_attr() that are meant for ibv_modify_qp(). Older kernels set higher bits for their own use.
constexpr int attributes_of_users = (IBV_QP_DEST_QPN << 1) - 1;

// The error of a call that returns -1 and sets errno, or returns it.
int error_of(int returned) { return returned == -1 ? errno : returned; }

}  // namespace

void VerbsPair::Destroy::operator()(ibv_qp* pair) const { (void)ibv_destroy_qp(pair); }

int VerbsPair::make(const VerbsDevice& device, rdma_cm_id* id, ibv_qp_init_attr& wanted) {
    device_ = &device;
    id_ = id;
    pair_.reset(ibv_create_qp(device.domain(), &wanted));
    return pair_ == nullptr ? errno : move(IBV_QPS_INIT, nullptr);
}

// A1
int VerbsPair::move(ibv_qp_state to, const rdma_conn_param* how) {
    ibv_qp_attr attributes{};
    attributes.qp_state = to;
    int mask = 0;
    if (const int failed = rdma_init_qp_attr(id_, &attributes, &mask); failed != 0) return error_of(failed);
    mask &= attributes_of_users;
    attributes.qp_access_flags = 0;
    if (how != nullptr && (mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) attributes.max_dest_rd_atomic = how->responder_resources;
    if (how != nullptr && (mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) attributes.max_rd_atomic = how->initiator_depth;
    return error_of(ibv_modify_qp(get(), &attributes, mask));
}

int VerbsPair::connect(rdma_conn_param how) {
    how.qp_num = get()->qp_num;
    return error_of(rdma_connect(id_, &how));
}

int VerbsPair::establish() { return error_of(rdma_establish(id_)); }

int VerbsPair::accept(rdma_conn_param how) {
    how.qp_num = get()->qp_num;
    return error_of(rdma_accept(id_, &how));
}

Refusal VerbsPair::ready(const rdma_conn_param* how) {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        if (const int failed = move(state, how); failed != 0) return verbs_call_failed("ibv_modify_qp", device_->name(), failed);
    ibv_qp_attr attributes{};
    ibv_qp_init_attr ignored{};
    if (const int failed = ibv_query_qp(get(), &attributes, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT, &ignored); failed != 0)
        return verbs_call_failed("ibv_query_qp", device_->name(), failed);
    const uint64_t flight = verbs_flight_us(attributes.timeout, attributes.retry_cnt);
    const VerbsConfig& config = device_->config();
    if (attributes.timeout != 0 && flight <= verbs_flight_us(config.ack_timeout, VerbsConfig::retries_max)) return {};
    return system_problem(std::string(device_->name()) + " chose a timeout of 4.096 us * 2^" +
                          std::to_string(attributes.timeout) + " and " + std::to_string(attributes.retry_cnt) +
                          " retries, longer than the grace allows for");
}

int VerbsPair::allow(unsigned rights) {
    ibv_qp_attr attributes{};
    attributes.qp_access_flags = rights;
    return error_of(ibv_modify_qp(get(), &attributes, IBV_QP_ACCESS_FLAGS));
}

void VerbsPair::stop() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    (void)ibv_modify_qp(get(), &attributes, IBV_QP_STATE);
}

}  // namespace farcached::fabric
