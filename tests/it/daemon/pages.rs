//! `/healthz` and `/metrics`, asked over a real socket.

use std::sync::Arc;
use std::time::Duration;

use holdfast::base::clock::{Clock, ManualClock};
use holdfast::base::job::Job;
use holdfast::daemon::health::{Beat, Pulse};
use holdfast::daemon::http::{Served, router};
use holdfast::telemetry::metrics::Metrics;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The status line and the body, with headers between them.
async fn ask(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn the_pages_say_what_the_loop_noted_last() {
    let clock = ManualClock::at("2026-12-01T10:00:00Z".parse().unwrap());
    let (metrics, pulse) = (Metrics::new(), Pulse::new(Duration::ZERO));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = Served { metrics: Arc::clone(&metrics), pulse: Arc::clone(&pulse), clock: clock.clone() };
    let serving = tokio::spawn(async move { axum::serve(listener, router(served)).await });
    let good = ask(address, "/healthz").await;
    assert!(good.starts_with("HTTP/1.1 200 OK\r\n") && good.ends_with("\r\n\r\nok\n"), "{good}");

    let noon: Timestamp = "2026-12-01T09:00:00Z".parse().unwrap();
    pulse.beat(Beat { turned: clock.uptime(), overdue: vec![(Job::Snapshot, noon)], ..Beat::default() });
    let bad = ask(address, "/healthz").await;
    assert!(bad.starts_with("HTTP/1.1 503 ") && bad.ends_with("\r\n\r\nsnapshot overdue since 2026-12-01T09:00:00Z\n"), "{bad}");

    metrics.job(Job::Snapshot, |job| job.last_success = Some(noon));
    let shown = ask(address, "/metrics").await;
    assert!(shown.contains("content-type: text/plain; version=0.0.4"), "{shown}");
    assert!(shown.contains("\nholdfast_job_last_success_timestamp_seconds{kind=\"snapshot\"} 1796115600\n"), "{shown}");
    assert!(ask(address, "/").await.contains("/healthz, /metrics"));
    assert!(ask(address, "/secrets").await.starts_with("HTTP/1.1 404 "));
    serving.abort();
}
