//! What a daemon says of itself over HTTP.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Every sample of `/metrics`, by its name with labels.
#[derive(Debug, Clone, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    pub async fn read(address: SocketAddr) -> Self {
        let (status, body) = get(address, "/metrics").await;
        assert_eq!(status, 200, "{body}");
        let samples = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(' '));
        Self(samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect())
    }

    /// A sample by its full name; 0 where there is none, which means never.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    /// All samples of a family.
    pub fn family(&self, name: &str) -> BTreeMap<&str, f64> {
        let of_family = |sample: &str| sample == name || sample.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
        self.0.iter().filter(|(sample, _)| of_family(sample)).map(|(sample, value)| (sample.as_str(), *value)).collect()
    }
}

/// Status and body of a GET.
pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}
