//! An HTTP server that answers as it is told and remembers what it was asked:
//! for answers that no real S3 server gives, and the wire as it is.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What came in.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// `PUT` and the part of the query that tells requests of S3 apart.
    pub fn kind(&self) -> &'static str {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        match self.method.as_str() {
            "PUT" if has("partNumber") => "UploadPart",
            "PUT" => "PutObject",
            "POST" if has("uploads") => "CreateMultipartUpload",
            "POST" => "CompleteMultipartUpload",
            "DELETE" if has("uploadId") => "AbortMultipartUpload",
            "HEAD" => "HeadObject",
            "GET" if has("list-type") => "ListObjectsV2",
            "GET" => "GetObject",
            _ => "unknown",
        }
    }
}

/// What goes out.
pub enum Answer {
    Bytes(Vec<u8>),
    /// The connection ends instead.
    Close,
    /// Nothing comes, and the connection stays.
    Silence,
}

/// An answer with a body, and its length.
pub fn answer(status: u16, headers: &str, body: &str) -> Answer {
    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    Answer::Bytes([head.as_bytes(), body.as_bytes()].concat())
}

/// An error as S3 words it.
pub fn error(status: u16, code: &str) -> Answer {
    answer(status, "content-type: application/xml\r\n", &format!("<Error><Code>{code}</Code><Message>said so</Message></Error>"))
}

/// A put that succeeds, of any kind.
pub fn stored(request: &Request) -> Answer {
    match request.kind() {
        "CreateMultipartUpload" => {
            let body = "<InitiateMultipartUploadResult><UploadId>upload-1</UploadId></InitiateMultipartUploadResult>";
            answer(200, "", body)
        }
        "CompleteMultipartUpload" => {
            answer(200, "", "<CompleteMultipartUploadResult><ETag>\"whole\"</ETag></CompleteMultipartUploadResult>")
        }
        "AbortMultipartUpload" => answer(204, "", ""),
        _ => answer(200, "etag: \"x\"\r\n", ""),
    }
}

/// The server. It ends with the value.
pub struct Script {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
    accepting: JoinHandle<()>,
}

impl Script {
    /// Answers each request by what it is and how many of its kind came before.
    pub async fn answering(script: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (remembered, script) = (seen.clone(), Arc::new(script));
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (remembered, script) = (remembered.clone(), script.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read(&mut stream).await else { return };
                    let before = {
                        let mut seen = remembered.lock().unwrap();
                        let before = seen.iter().filter(|other| other.kind() == request.kind()).count();
                        seen.push(request.clone());
                        before
                    };
                    match script(&request, before) {
                        Answer::Bytes(bytes) => {
                            let _ = stream.write_all(&bytes).await;
                            let _ = stream.shutdown().await;
                        }
                        Answer::Close => {}
                        Answer::Silence => std::future::pending().await,
                    }
                });
            }
        });
        Self { address, seen, accepting }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// The kinds of all requests so far, in order.
    pub fn kinds(&self) -> Vec<&'static str> {
        self.seen().iter().map(Request::kind).collect()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut request = Request::default();
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    (request.method, request.target) = (words.next()?.to_owned(), words.next()?.to_owned());
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    if request.header("expect").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
    }
    request.body = vec![0; length];
    stream.read_exact(&mut request.body).await.ok()?;
    Some(request)
}
