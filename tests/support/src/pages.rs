//! Pages to work on: a loopback HTTP server that answers for any host.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

type Documents = Arc<RwLock<HashMap<String, Document>>>;

/// What lies at a path, and how often it was asked for.
#[derive(Debug, Clone)]
struct Document {
    content: Content,
    hits: usize,
}

#[derive(Debug, Clone)]
enum Content {
    Html(String),
    Redirect(String),
}

/// Serves HTML from memory until dropped.
#[derive(Debug)]
pub struct Pages {
    address: SocketAddr,
    documents: Documents,
    _tasks: JoinSet<()>,
}

impl Pages {
    /// Listens on a free port of 127.0.0.1. Host names are not looked at, so `http://localhost:<port>` is another site.
    ///
    /// # Errors
    /// If no port can be had.
    pub async fn serve() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let documents = Documents::default();
        let served = Arc::clone(&documents);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(answer(stream, Arc::clone(&served)));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, documents, _tasks: tasks })
    }

    /// Puts HTML at a path such as `/form` (a query is ignored) and returns its address.
    pub fn put(&self, path: &str, html: impl Into<String>) -> String {
        self.insert(path, Content::Html(html.into()))
    }

    /// Redirects a path to an address, and returns the path's own.
    pub fn redirect(&self, path: &str, to: impl Into<String>) -> String {
        self.insert(path, Content::Redirect(to.into()))
    }

    fn insert(&self, path: &str, content: Content) -> String {
        let document = Document { content, hits: 0 };
        self.documents.write().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), document);
        self.url(path)
    }

    /// How often a path has been asked for since something was put there.
    pub fn hits(&self, path: &str) -> usize {
        let documents = self.documents.read().unwrap_or_else(PoisonError::into_inner);
        documents.get(path).map_or(0, |document| document.hits)
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

/// One request a connection: that is all a test page needs.
async fn answer(stream: TcpStream, documents: Documents) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    let mut header = String::new();
    while stream.read_line(&mut header).await? > 2 {
        header.clear();
    }
    let target = request.split(' ').nth(1).unwrap_or("/");
    let path = target.split(['?', '#']).next().unwrap_or("/");
    let found = documents.write().unwrap_or_else(PoisonError::into_inner).get_mut(path).map(|document| {
        document.hits += 1;
        document.content.clone()
    });
    let (status, location, body) = match found {
        Some(Content::Html(html)) => ("200 OK", String::new(), html),
        Some(Content::Redirect(to)) => ("302 Found", format!("location: {to}\r\n"), String::new()),
        None => ("404 Not Found", String::new(), String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n{location}content-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
