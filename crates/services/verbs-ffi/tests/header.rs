//! The committed header is what the source says.

#[path = "../../ffi/tests/rig/header.rs"]
mod header;

use header::Header;

const HEAD: &str = "\
/*
 * bwverbs.h: RDMA (RoCEv2 reliable connections) through the daemon, for C. Generated from the library's source; do not edit.
 *
 * A context is an application's device at the daemon, in the words of libibverbs and librdmacm:
 *
 *     bwv_context *context;
 *     bwv_pd pd;  bwv_cq cq;  bwv_qp qp;  bwv_mr mr;  bwv_event event;  bwv_wc wc;
 *     bwv_connect_to to = {.service_id = bwv_service_id(7471)};
 *     if (bwv_open(\"hello\", NULL, &context) != BWV_OK) die(bwv_last_error());
 *     bwv_alloc_pd(context, &pd);
 *     bwv_create_cq(context, 64, &cq);
 *     bwv_reg_mr(context, pd, 4096, BWV_ACCESS_LOCAL_WRITE, &mr);
 *     bwv_qp_attr attr = {.pd = pd, .send_cq = cq, .recv_cq = cq, .send_max = 16, .recv_max = 16};
 *     bwv_create_qp(context, &attr, &qp);
 *     bwv_addr_parse(\"10.0.0.2\", &to.remote);
 *     bwv_connect(context, qp, &to, 1000, &event);
 *     bwv_send_wr wr = {.wr_id = 1, .opcode = BWV_OP_SEND, .flags = BWV_SEND_SIGNALED | BWV_SEND_INLINE,
 *                       .inline_data = \"hello\", .inline_len = 5};
 *     bwv_post_send(context, qp, &wr);
 *     bwv_wait_cq(context, cq, 1000, &wc);
 *
 * Results: functions that return int give 0 or a positive number when they worked, and a negative BWV_ERR_... code when not.
 * Codes, kinds and reasons never change their meaning.
 *
 * Objects are numbers, checked by the daemon: a wrong one is BWV_ERR_UNKNOWN. Registered memory lies in the channel that
 * application and daemon share; a program does not register memory of its own.
 *
 * Verbs that make, end or look at objects wait for the daemon's answer, a few seconds at most. Posts never wait.
 *
 * Threads: one thread at a time is inside a call on a context; a second one gets BWV_ERR_BUSY_CONTEXT. A context may move
 * between threads. Several threads open one context each. bwv_last_error speaks of the calling thread. A child made by fork()
 * uses none of its parent's contexts: it opens its own.
 *
 * Pointers: null, closed and invalid contexts are reported by a code. Other pointers that are not null have to be valid for the
 * call; the library keeps none of them.
 */
";

#[test]
fn the_committed_header_is_what_the_source_says() {
    let header = Header {
        file: "bwverbs.h",
        head: HEAD,
        guard: "BWVERBS_H",
        names: &[
            ("BwvContext", "bwv_context"),
            ("BwvPd", "bwv_pd"),
            ("BwvMrId", "bwv_mr_id"),
            ("BwvCq", "bwv_cq"),
            ("BwvSrq", "bwv_srq"),
            ("BwvQp", "bwv_qp"),
            ("BwvListener", "bwv_listener"),
            ("BwvConn", "bwv_conn"),
            ("BwvAddr", "bwv_addr"),
            ("BwvLimits", "bwv_limits"),
            ("BwvMr", "bwv_mr"),
            ("BwvSge", "bwv_sge"),
            ("BwvQpAttr", "bwv_qp_attr"),
            ("BwvQpView", "bwv_qp_view"),
            ("BwvSendWr", "bwv_send_wr"),
            ("BwvWc", "bwv_wc"),
            ("BwvConnectTo", "bwv_connect_to"),
            ("BwvEvent", "bwv_event"),
        ],
        source: &["error.rs", "types.rs", "entry.rs", "object.rs", "connect.rs", "data.rs"],
    };
    header.check();
}
