//! The program inside the testbed's own images.
//!
//! - `standin pause` holds the namespaces of a pod;
//! - `standin serve [PORT]` answers HTTP with who it is and who asked, and takes
//!   the place of web servers such as nginx. At `/ready` it says that it is not ready while the
//!   file `/tmp/unready` exists.
//!
//! It uses the standard library alone, so that images stay small.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::thread;

/// While this file exists, the program is not ready.
const UNREADY: &str = "/tmp/unready";

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("pause") => loop {
            thread::park();
        },
        Some("serve") => {
            let port = words
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(80);
            match serve(port) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("cannot listen on port {port}: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => {
            eprintln!("usage: standin pause | standin serve [PORT]");
            ExitCode::from(2)
        }
    }
}

fn serve(port: u16) -> std::io::Result<()> {
    // One socket for both families: Linux maps IPv4 into it.
    for connection in TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?
        .incoming()
        .flatten()
    {
        thread::spawn(move || {
            // A client that hangs up early is not the server's trouble.
            let _ = answer(connection);
        });
    }
    Ok(())
}

fn answer(mut connection: TcpStream) -> std::io::Result<()> {
    let client = connection.peer_addr()?.ip().to_canonical();
    let server = connection.local_addr()?.ip().to_canonical();
    let mut request = BufReader::new(connection.try_clone()?);
    // Whoever does not begin with a method, such as a TLS client, is told so at
    // once instead of being waited for.
    if !request
        .fill_buf()?
        .first()
        .is_some_and(u8::is_ascii_uppercase)
    {
        return respond(&mut connection, "400 Bad Request", "this is plain HTTP\n");
    }
    let mut line = Vec::new();
    request.read_until(b'\n', &mut line)?;
    let asks_for_readiness = line.starts_with(b"GET /ready ");
    while !line.trim_ascii().is_empty() {
        line.clear();
        request.read_until(b'\n', &mut line)?;
    }
    if asks_for_readiness && Path::new(UNREADY).exists() {
        return respond(&mut connection, "503 Service Unavailable", "not ready\n");
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let body = format!("pod={} server={server} client={client}\n", host.trim());
    respond(&mut connection, "200 OK", &body)
}

fn respond(connection: &mut TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
