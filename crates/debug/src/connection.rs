//! Where a debugger connects, and the bytes to and from it.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use gdbstub::conn::{Connection, ConnectionExt};

use crate::aside;
use crate::packets::Packets;

/// Where to wait for a debugger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `HOST:PORT`; port 0 stands for any that is free.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    /// `HOST:PORT`, `:PORT` (of localhost), or a path with a `/` in it.
    fn from_str(text: &str) -> Result<Address, String> {
        if text.contains('/') {
            return Ok(Address::Unix(PathBuf::from(text)));
        }
        let parts = text.rsplit_once(':');
        let (host, port) = parts
            .filter(|(_, port)| port.parse::<u16>().is_ok())
            .ok_or("neither HOST:PORT nor a path with a `/`")?;
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(Address::Tcp(format!("{host}:{port}")))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => f.write_str(address),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Waits for a debugger.
pub struct Listener {
    socket: Socket,
    address: Address,
    aside: bool,
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// One that is taken, or none of this host.
    pub fn bind(address: &Address) -> io::Result<Listener> {
        Listener::new(address, false)
    }

    /// As [`Listener::bind`], with descriptors as the rest of the engine has them: out of the way of the program.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn bind_aside(address: &Address) -> io::Result<Listener> {
        Listener::new(address, true)
    }

    fn new(address: &Address, aside: bool) -> io::Result<Listener> {
        let (socket, address) = match address {
            Address::Tcp(name) => {
                let socket = TcpListener::bind(name)?;
                let port = socket.local_addr()?.port();
                let host = name.rsplit_once(':').map_or("", |(host, _)| host);
                let address = Address::Tcp(format!("{host}:{port}"));
                (Socket::Tcp(socket), address)
            }
            Address::Unix(path) => (Socket::Unix(UnixListener::bind(path)?), address.clone()),
        };
        let socket = match socket {
            Socket::Tcp(socket) if aside => Socket::Tcp(aside::high(socket)),
            Socket::Unix(socket) if aside => Socket::Unix(aside::high(socket)),
            socket => socket,
        };
        Ok(Listener {
            socket,
            address,
            aside,
        })
    }

    /// The address, with the port that it got.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for a debugger to connect.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn accept(&self) -> io::Result<Remote> {
        let stream = match &self.socket {
            Socket::Tcp(socket) => {
                let stream = socket.accept()?.0;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            Socket::Unix(socket) => Stream::Unix(socket.accept()?.0),
        };
        Ok(Remote::new(match stream {
            Stream::Tcp(stream) if self.aside => Stream::Tcp(aside::high(stream)),
            Stream::Unix(stream) if self.aside => Stream::Unix(aside::high(stream)),
            stream => stream,
        }))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // Somebody else may have removed it; then there is nothing to do.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).read(to),
            Stream::Unix(stream) => (&*stream).read(to),
        }
    }

    fn write_all(&self, from: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => (&*stream).write_all(from),
            Stream::Unix(stream) => (&*stream).write_all(from),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// A debugger that has connected.
pub struct Remote {
    stream: Arc<Stream>,
    incoming: Packets,
    outgoing: Vec<u8>,
}

impl Remote {
    fn new(stream: Stream) -> Remote {
        Remote {
            stream: Arc::new(stream),
            incoming: Packets::default(),
            outgoing: Vec::new(),
        }
    }

    /// What bytes come from, to be watched.
    pub(crate) fn stream(&self) -> Arc<Stream> {
        self.stream.clone()
    }

    /// Whether there are bytes that have been received and not been read.
    pub fn has_buffered(&self) -> bool {
        self.incoming.peek().is_some()
    }
}

impl AsFd for Remote {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection for Remote {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.outgoing.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.outgoing.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.incoming.answer(&mut self.outgoing);
        self.stream.write_all(&self.outgoing)?;
        self.outgoing.clear();
        Ok(())
    }
}

impl ConnectionExt for Remote {
    fn read(&mut self) -> io::Result<u8> {
        loop {
            if let Some(byte) = self.incoming.next() {
                return Ok(byte);
            }
            self.flush()?;
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let bytes = bytes.get(..count).unwrap_or_default();
                    bytes.iter().for_each(|&byte| self.incoming.take(byte));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.incoming.peek())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ports_or_paths() {
        let tcp = |text: &str| Ok(Address::Tcp(text.to_owned()));
        assert_eq!(":1234".parse(), tcp("localhost:1234"));
        assert_eq!("[::1]:0".parse(), tcp("[::1]:0"));
        assert_eq!("./x".parse(), Ok(Address::Unix("./x".into())));
        for wrong in ["", "localhost", "host:", "host:99999", "host:x"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
