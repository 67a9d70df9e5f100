//! gNMI over real gRPC.

use crate::rig::*;
use barewire_switch_control::gnmi::message::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Streaming};

fn path(steps: &[&str]) -> Path {
    let elem = steps
        .iter()
        .map(|step| match step.split_once('=') {
            Some((name, key)) => {
                PathElem { name: name.into(), key: BTreeMap::from([("name".into(), key.into())]) }
            }
            None => PathElem { name: (*step).into(), key: BTreeMap::new() },
        })
        .collect();
    Path { elem, ..Path::default() }
}

fn values(notification: &Notification) -> Vec<(String, ValueKind)> {
    notification
        .update
        .iter()
        .map(|update| {
            let steps = &update.path.as_ref().unwrap().elem;
            (steps.last().unwrap().name.clone(), update.val.clone().unwrap().value.unwrap())
        })
        .collect()
}

fn subscribe(
    rig: &Rig,
    list: SubscriptionList,
) -> (mpsc::Sender<SubscribeRequest>, Streaming<SubscribeResponse>) {
    let (to, requests) = mpsc::channel(8);
    let mut grpc = rig.client().grpc;
    let from = rig.runtime.block_on(async {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::default();
        to.send(SubscribeRequest { request: Some(SubscribeKind::Subscribe(list)) }).await.unwrap();
        let path = PathAndQuery::from_static("/gnmi.gNMI/Subscribe");
        grpc.streaming(Request::new(ReceiverStream::new(requests)), path, codec).await.unwrap().into_inner()
    });
    (to, from)
}

fn next(rig: &Rig, from: &mut Streaming<SubscribeResponse>) -> Result<Option<ResponseKind>, Code> {
    let message = rig
        .runtime
        .block_on(async { tokio::time::timeout(PATIENCE, from.message()).await.expect("nothing came") });
    message.map(|message| message.and_then(|message| message.response)).map_err(|status| status.code())
}

#[test]
fn interfaces_are_read() {
    let (rig, _controller) = Rig::start_with_ports(2);
    let client = rig.client();
    let capabilities: CapabilityResponse =
        client.unary("/gnmi.gNMI/Capabilities", CapabilityRequest {}).unwrap();
    assert_eq!(capabilities.supported_models[0].name, "openconfig-interfaces");
    let get = |path: Path, encoding: Encoding| -> Result<GetResponse, Code> {
        let request = GetRequest { path: vec![path], encoding: encoding as i32, ..GetRequest::default() };
        client.unary("/gnmi.gNMI/Get", request).map_err(|status| status.code())
    };
    // A path costs two bytes, its answer the whole tree.
    let many = GetRequest { path: vec![Path::default(); 257], ..GetRequest::default() };
    let refused = client.unary::<_, GetResponse>("/gnmi.gNMI/Get", many).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let names = get(path(&["interfaces", "interface=*", "state", "name"]), Encoding::Proto).unwrap();
    let names = values(&names.notification[0]);
    assert_eq!(names.len(), 2);
    let ValueKind::StringVal(first) = names[0].1.clone() else { panic!("{names:?}") };
    let mut one = rig.wire(1);
    for _ in 0..3 {
        one.send(&frame(1, 2, 3));
    }
    let key = format!("interface={first}");
    let counters = || {
        values(
            &get(path(&["interfaces", &key, "state", "counters"]), Encoding::Proto).unwrap().notification[0],
        )
    };
    for _ in 0..200 {
        if counters().contains(&("in-pkts".into(), ValueKind::UintVal(3))) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let found = counters();
    assert!(found.contains(&("in-octets".into(), ValueKind::UintVal(180))), "{found:?}");
    assert_eq!(found.len(), 6);
    let status = get(path(&["interfaces", &key, "state", "oper-status"]), Encoding::JsonIetf).unwrap();
    assert_eq!(
        values(&status.notification[0]),
        [("oper-status".into(), ValueKind::JsonIetfVal(b"\"UP\"".to_vec()))]
    );
    assert_eq!(get(path(&["interfaces", "interface=nobody", "state"]), Encoding::Proto), Err(Code::NotFound));
    assert_eq!(get(path(&["system"]), Encoding::Proto), Err(Code::NotFound));
    assert_eq!(get(path(&["interfaces"]), Encoding::Bytes), Err(Code::Unimplemented));
    let set = client.unary::<_, SetResponse>("/gnmi.gNMI/Set", SetRequest::default()).unwrap_err();
    assert_eq!(set.code(), Code::Unimplemented);
    rig.stop();
}

#[test]
fn subscriptions_once_by_poll_and_as_a_stream() {
    let (rig, _controller) = Rig::start_with_ports(1);
    let subscription = |mode: SubscriptionMode, steps: &[&str]| Subscription {
        path: Some(path(steps)),
        mode: mode as i32,
        sample_interval: 200_000_000,
        ..Subscription::default()
    };
    let list = |mode: ListMode, subscription| SubscriptionList {
        subscription: vec![subscription],
        mode: mode as i32,
        encoding: Encoding::Proto as i32,
        ..SubscriptionList::default()
    };
    let statuses = ["interfaces", "interface", "state", "oper-status"];
    let up = ("oper-status".to_owned(), ValueKind::StringVal("UP".into()));
    let update = |got: Result<Option<ResponseKind>, Code>| match got {
        Ok(Some(ResponseKind::Update(notification))) => values(&notification),
        other => panic!("{other:?}"),
    };
    let synced = Ok(Some(ResponseKind::SyncResponse(true)));

    let (_to, mut from) =
        subscribe(&rig, list(ListMode::Once, subscription(SubscriptionMode::TargetDefined, &statuses)));
    assert_eq!(update(next(&rig, &mut from)), [up.clone()]);
    assert_eq!(next(&rig, &mut from), synced);
    assert_eq!(next(&rig, &mut from), Ok(None));

    let (to, mut from) =
        subscribe(&rig, list(ListMode::Poll, subscription(SubscriptionMode::TargetDefined, &statuses)));
    for _ in 0..2 {
        rig.runtime
            .block_on(to.send(SubscribeRequest { request: Some(SubscribeKind::Poll(Poll {})) }))
            .unwrap();
        assert_eq!(update(next(&rig, &mut from)), [up.clone()]);
        assert_eq!(next(&rig, &mut from), synced);
    }

    let packets = ["interfaces", "interface", "state", "counters", "in-pkts"];
    let (_to, mut sampled) =
        subscribe(&rig, list(ListMode::Stream, subscription(SubscriptionMode::Sample, &packets)));
    let (_to2, mut changes) =
        subscribe(&rig, list(ListMode::Stream, subscription(SubscriptionMode::OnChange, &packets)));
    let zero = ("in-pkts".to_owned(), ValueKind::UintVal(0));
    for stream in [&mut sampled, &mut changes] {
        assert_eq!(update(next(&rig, stream)), [zero.clone()]);
        assert_eq!(next(&rig, stream), synced);
    }
    // Samples come without a change.
    assert_eq!(update(next(&rig, &mut sampled)), [zero]);
    let mut one = rig.wire(1);
    one.send(&frame(1, 2, 3));
    assert_eq!(update(next(&rig, &mut changes)), [("in-pkts".to_owned(), ValueKind::UintVal(1))]);

    let nonsense = list(ListMode::Stream, subscription(SubscriptionMode::Sample, &["no", "such", "place"]));
    assert_eq!(next(&rig, &mut subscribe(&rig, nonsense).1), Err(Code::NotFound));
    rig.stop();
}
