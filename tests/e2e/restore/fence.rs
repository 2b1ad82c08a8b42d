//! No packet leaves the fence of a cluster that is up: probed from inside, with
//! controls that show that the same probe would see a way.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Host, kubectl, text};
use crate::scene::source;

const PROBE_LIMIT: Duration = Duration::from_secs(2);

/// What a thread inside sees.
#[derive(Debug)]
struct Inside {
    reached: Vec<(SocketAddr, bool)>,
    sent: Vec<(SocketAddr, bool)>,
    interfaces: Vec<String>,
    routes_out: Vec<String>,
    received_on_loopback: u64,
}

fn can_connect(to: SocketAddr) -> bool {
    TcpStream::connect_timeout(&to, PROBE_LIMIT).is_ok()
}

fn can_send(to: SocketAddr) -> bool {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.send_to(b"probe", to)).is_ok()
}

fn look_inside(network: File, targets: Vec<SocketAddr>, nowhere: Vec<SocketAddr>) -> Inside {
    let inside = std::thread::spawn(move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
        let reached = targets.into_iter().map(|to| (to, can_connect(to))).collect();
        let sent = nowhere.into_iter().map(|to| (to, can_send(to))).collect();
        let devices = read("dev");
        let rows: Vec<(&str, &str)> = devices.lines().filter_map(|line| line.split_once(':')).collect();
        let column = |table: String, at: usize| {
            let names =
                table.lines().filter_map(|line| Some(line.split_ascii_whitespace().nth(at)?.to_owned())).collect::<Vec<_>>();
            names.into_iter().filter(|name| name != "Iface" && name != "lo").collect::<Vec<_>>()
        };
        let mut routes_out = column(read("route"), 0);
        routes_out.extend(column(read("ipv6_route"), 9));
        Inside {
            reached,
            sent,
            interfaces: rows.iter().map(|(name, _)| name.trim().to_owned()).collect(),
            routes_out,
            received_on_loopback: rows[0].1.split_ascii_whitespace().nth(1).unwrap().parse().unwrap(),
        }
    });
    inside.join().unwrap()
}

/// This host's own IPv4 addresses, as the kernel lists them.
fn own_addresses() -> Vec<Ipv4Addr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").unwrap();
    let mut addresses = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line.contains("/32 host LOCAL") {
            addresses.extend(last);
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    assert!(addresses.contains(&Ipv4Addr::LOCALHOST));
    addresses
}

#[test]
fn no_packet_leaves_the_fence_of_a_cluster_that_is_up() {
    let host = Host::new();
    let up = host.raise(source().second.id.as_str(), &[]);
    if !rustix::process::geteuid().is_root() {
        assert!(up.document["up"]["fence"].as_str().unwrap().starts_with("not fenced"));
        return;
    }
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let outside: Vec<SocketAddr> = own_addresses().into_iter().map(|address| (address, port).into()).collect();
    assert!(outside.iter().all(|address| can_connect(*address)), "the control: outside, each is reached");
    let door: SocketAddr = up.address.trim_start_matches("https://").parse().unwrap();
    assert!(can_connect(door), "the way in is open outside");
    let etcd = up.process("etcd");
    let arguments = std::fs::read(format!("/proc/{}/cmdline", etcd.pid)).unwrap();
    let arguments = text(&arguments);
    let inner = arguments.split('\0').skip_while(|part| *part != "--listen-client-urls").nth(1).unwrap();
    let inner: SocketAddr = inner.trim_start_matches("https://").parse().unwrap();
    assert!(!can_connect(inner), "etcd listens inside alone");

    let network = File::open(format!("/proc/{}/ns/net", etcd.pid)).unwrap();
    let nowhere = vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 53)];
    let targets = [outside.clone(), vec![door, inner]].concat();
    let inside = look_inside(network, targets, nowhere);
    for (to, reached) in &inside.reached {
        assert_eq!(*reached, *to == inner, "{to}: {inside:#?}");
    }
    assert!(inside.sent.iter().all(|(_, sent)| !sent), "{inside:#?}");
    assert_eq!(inside.interfaces, ["lo"], "so every packet that the kernel counts there went over loopback");
    assert!(inside.routes_out.is_empty() && inside.received_on_loopback > 0, "{inside:#?}");
    // All the while it serves.
    assert!(kubectl(&up.kubeconfig, &["get", "--raw", "/readyz"]).status.success());
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    for (program, identity) in up.processes().into_iter().filter(|(name, identity)| name != "unshare" && identity.is_alive()) {
        let space = std::fs::read_link(format!("/proc/{}/ns/net", identity.pid)).unwrap();
        assert_ne!(space, own, "{program} is inside");
    }
}

#[test]
fn where_a_fence_is_required_and_cannot_be_raised_nothing_is_restored() {
    let host = Host::new();
    let config = host.config();
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("[rehearsal]\n", "[rehearsal]\nfence = true\n")).unwrap();
    let arguments = ["restore", source().first.id.as_str(), "--into", "scratch", "--to", "boot", "--json"];
    // Root that may make no namespaces; whoever is not root may make none anyway.
    let mut command = host.command(&arguments);
    if rustix::process::geteuid().is_root() {
        let program = command.get_program().to_owned();
        let given: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        let mut bounded = super::program("setpriv");
        bounded.args(["--bounding-set", "-sys_admin"]).arg(program).args(given);
        command = bounded;
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", super::text(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["up"].is_null());
    let failure = document["report"]["failures"][0].clone();
    assert_eq!((&failure["step"], &failure["code"]), (&"restore-data".into(), &"sandbox.failed".into()), "{failure}");
    assert!(failure["cause"].as_str().unwrap().contains("required"), "{failure}");
    host.scene.nothing_is_left();
}
