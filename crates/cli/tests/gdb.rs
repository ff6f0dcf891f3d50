//! `rocjitsu launch --gdb`, driven over GDB's remote protocol by a client of this test's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rocjitsu_exec::record::SHARED_BASE;

/// A launch that waits for us, and the connection to it.
struct Client {
    child: Child,
    stream: BufReader<TcpStream>,
    xml: String,
}

impl Client {
    fn raw(kernel: &str, target: &str, more: &[&str]) -> Client {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../data/corpus/built")
            .join(format!("{kernel}.json"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
            .arg("launch")
            .arg(file)
            .args(["--target", target, "--check", "--gdb", "localhost:0"])
            .args(more)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let (_, address) = line.trim().rsplit_once(" at ").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Client {
            child,
            stream: BufReader::new(stream),
            xml: String::new(),
        }
    }

    fn new(kernel: &str, target: &str, more: &[&str]) -> Client {
        let mut client = Client::raw(kernel, target, more);
        let features = client.ask("qSupported:swbreak+;hwbreak+");
        assert!(features.contains("qXfer:features:read+"), "{features}");
        loop {
            let offset = client.xml.len();
            let part = client.ask(&format!("qXfer:features:read:target.xml:{offset:x},1000"));
            client.xml.push_str(&part[1..]);
            if part.starts_with('l') {
                return client;
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// The next packet, acknowledged, with runs of equal characters written out.
    fn packet(&mut self) -> String {
        while self.byte() != b'$' {}
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            match self.byte() {
                b'#' => break,
                b'*' => {
                    let (count, last) = (self.byte() - 29, *bytes.last().unwrap());
                    bytes.extend(std::iter::repeat_n(last, count.into()));
                }
                b'}' => {
                    let byte = self.byte() ^ 0x20;
                    bytes.push(byte);
                }
                byte => bytes.push(byte),
            }
        }
        self.byte();
        self.byte();
        self.send(b"+");
        String::from_utf8(bytes).unwrap()
    }

    fn tell(&mut self, text: &str) {
        let sum = text.bytes().fold(0u8, u8::wrapping_add);
        self.send(format!("${text}#{sum:02x}").as_bytes());
    }

    fn ask(&mut self, text: &str) -> String {
        self.tell(text);
        self.packet()
    }

    fn ok(&mut self, text: &str) {
        assert_eq!(self.ask(text), "OK", "{text}");
    }

    fn number(&self, name: &str) -> usize {
        let line = self.xml.split(&format!("<reg name=\"{name}\" ")).nth(1);
        let number = line.unwrap().split("regnum=\"").nth(1).unwrap();
        number.split('"').next().unwrap().parse().unwrap()
    }

    fn register(&mut self, name: &str) -> Vec<u8> {
        let number = self.number(name);
        unhex(&self.ask(&format!("p{number:x}")))
    }

    fn scalar(&mut self, name: &str) -> u64 {
        let bytes = self.register(name);
        bytes.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b))
    }

    fn set(&mut self, name: &str, bytes: &[u8]) {
        let number = self.number(name);
        self.ok(&format!("P{number:x}={}", hex(bytes)));
    }

    fn memory(&mut self, address: u64, bytes: usize) -> Vec<u8> {
        unhex(&self.ask(&format!("m{address:x},{bytes:x}")))
    }

    fn monitor(&mut self, command: &str) -> String {
        self.tell(&format!("qRcmd,{}", hex(command.as_bytes())));
        let mut said = Vec::new();
        loop {
            match self.packet().as_str() {
                "OK" => return String::from_utf8(said).unwrap(),
                part => said.extend(unhex(part.strip_prefix('O').unwrap())),
            }
        }
    }

    /// Status of the launch, which goes on alone.
    fn status(mut self) -> Option<i32> {
        drop(self.stream);
        self.child.wait().unwrap().code()
    }

    fn detach(mut self) -> Option<i32> {
        self.ok("D");
        self.status()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "{text}");
    let digits = (0..text.len()).step_by(2);
    digits
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect(text))
        .collect()
}

/// From the entry of axpy for gfx942: `v_add_f32 v2, v2, v3`, `global_store_dword v1, v2, s[8:9]`, `s_endpgm`.
const ADD: u64 = 0x50;
const STORE: u64 = 0x54;
const END: u64 = 0x5c;

#[test]
fn a_kernel_is_stopped_looked_at_and_let_go_to_its_right_end() {
    let mut client = Client::new("asm_axpy", "gfx942", &[]);
    assert!(client.ask("?").starts_with("T05thread:"));
    let entry = client.scalar("pc");
    let all = unhex(&client.ask("g"));
    assert_eq!(all[..8], entry.to_le_bytes());
    assert_eq!(client.scalar("exec"), u64::MAX);
    let first = client.ask("qfThreadInfo");
    assert!(first.starts_with("m"), "{first}");
    assert_eq!(client.ask("qsThreadInfo"), "l");
    assert!(client.monitor("disasm").contains("-> "));
    assert!(client.monitor("waves").contains("workgroup 0,0,0 wave 0"));

    client.ok(&format!("Z0,{:x},4", entry + ADD));
    let stop = client.ask("vCont;c");
    assert!(
        stop.starts_with("T05") && stop.contains("swbreak"),
        "{stop}"
    );
    assert_eq!(client.scalar("pc"), entry + ADD);
    client.ok(&format!("z0,{:x},4", entry + ADD));
    let (product, y) = (client.register("v2"), client.register("v3"));
    assert_eq!(product.len(), 256);
    let stop = client.ask("vCont;s:1");
    assert!(stop.starts_with("T05"), "{stop}");
    assert_eq!(client.scalar("pc"), entry + STORE);
    let sum = client.register("v2");
    let floats = |bytes: &[u8]| {
        let words = bytes.as_chunks().0.iter();
        words.map(|b| f32::from_le_bytes(*b)).collect::<Vec<_>>()
    };
    let want = floats(&product).into_iter().zip(floats(&y));
    let want: Vec<f32> = want.map(|(a, b)| a + b).collect();
    assert_eq!(floats(&sum), want);

    let out = client.scalar("s8") | client.scalar("s9") << 32;
    assert_eq!(client.memory(out, 256), vec![0; 256]);
    client.ok(&format!("Z2,{:x},4", out + 8));
    let stop = client.ask("vCont;c");
    assert!(stop.starts_with("T05"), "{stop}");
    assert!(stop.contains("watch:"), "{stop}");
    assert_eq!(client.scalar("pc"), entry + END);
    assert_eq!(client.memory(out, 256), sum);
    assert_eq!(client.detach(), Some(0));
}

#[test]
fn what_the_client_changes_is_what_the_kernel_computes_with() {
    let mut client = Client::new("asm_axpy", "gfx942", &[]);
    let entry = client.scalar("pc");
    client.ok(&format!("Z1,{:x},4", entry + STORE));
    assert!(client.ask("vCont;c").contains("hwbreak"));
    client.ok(&format!("z1,{:x},4", entry + STORE));
    let right = client.register("v2");
    client.set("v2", &[0x5a; 256]);
    client.ask("vCont;s:1");
    let out = client.scalar("s8") | client.scalar("s9") << 32;
    assert_eq!(client.memory(out, 256), [0x5a; 256]);
    // The comparison with the expected output tells the difference, and none if it is taken back.
    client.ok(&format!("M{out:x},100:{}", hex(&right)));
    assert_eq!(client.detach(), Some(0));

    let mut client = Client::new("asm_axpy", "gfx942", &[]);
    client.set("exec", &1u64.to_le_bytes());
    assert_eq!(client.scalar("exec"), 1);
    assert_eq!(client.detach(), Some(1));
}

#[test]
fn the_end_is_told_and_a_repeated_launch_stops_again() {
    let mut client = Client::new("asm_axpy", "gfx1100", &["--repeat", "3"]);
    let entry = client.scalar("pc");
    client.ok(&format!("Z0,{entry:x},4"));
    // Four workgroups of two waves; the first wave stands there already.
    let mut stops = 0;
    loop {
        let stop = client.ask("vCont;c");
        if stop.starts_with('W') {
            assert!(stop.starts_with("W00"), "{stop}");
            break;
        }
        assert!(stop.starts_with("T05"), "{stop}");
        stops += 1;
    }
    assert!((3 * 8 - 3..=3 * 8).contains(&stops), "{stops}");
    assert_eq!(client.status(), Some(0));

    let mut client = Client::new("asm_axpy", "gfx942", &[]);
    client.tell("k");
    assert_eq!(client.status(), Some(1));
}

#[test]
fn a_running_launch_is_interrupted() {
    let mut client = Client::new("asm_axpy", "gfx942", &["--repeat", "4000000"]);
    client.tell("vCont;c");
    std::thread::sleep(std::time::Duration::from_millis(20));
    client.send(b"\x03");
    let stop = client.packet();
    assert!(stop.starts_with("T02"), "{stop}");
    assert_ne!(client.scalar("pc"), 0);
    client.tell("k");
    assert_eq!(client.status(), Some(1));
}

#[test]
fn lds_is_read_and_written_through_its_aperture() {
    let mut client = Client::new("block_reduce_atomic", "gfx942", &[]);
    client.ok(&format!("M{SHARED_BASE:x},4:78563412"));
    assert_eq!(client.memory(SHARED_BASE, 4), [0x78, 0x56, 0x34, 0x12]);
    assert!(client.monitor("lds 0 16").contains("12345678"));
    // The workgroup has not as much.
    assert!(
        client
            .ask(&format!("m{:x},4", SHARED_BASE + (1 << 20)))
            .starts_with('E')
    );
    client.ok(&format!("Z2,{SHARED_BASE:x},4"));
    let stop = client.ask("vCont;c");
    assert!(stop.contains(&format!("{SHARED_BASE:x};")), "{stop}");
    assert_eq!(client.detach(), Some(0));
}

#[test]
fn a_fault_stops_at_the_wave() {
    let mut client = Client::new("asm_axpy", "gfx942", &[]);
    let entry = client.scalar("pc");
    client.ok(&format!("Z0,{:x},4", entry + STORE));
    client.ask("vCont;c");
    client.ok(&format!("z0,{:x},4", entry + STORE));
    client.set("s9", &0x1234u32.to_le_bytes());
    let stop = client.ask("vCont;c");
    assert!(stop.starts_with("T0b"), "{stop}");
    assert_eq!(client.scalar("pc"), entry + STORE);
    assert!(client.monitor("fault").contains("store"));
    client.tell("k");
    assert_eq!(client.status(), Some(1));
}

#[test]
fn whatever_comes_is_survived() {
    let packets = [
        "mffffffffffffffff,ffffffff",
        "m0,0",
        "m,",
        "Mffffffffffffffff,4:00000000",
        "M0,ffffffffffffffff:00",
        "pffffffff",
        "Pffffffff=00",
        "P7e=00",
        "G00",
        "Hgffffffff",
        "Hg0",
        "Tffff",
        "Z2,ffffffffffffffff,ffffffff",
        "Z2,0,0",
        "Z0,,",
        "z9,0,0",
        "vCont;s:ffff",
        "qThreadExtraInfo,ffffffffff",
        "qXfer:features:read:x:0,10",
        "qXfer:features:read:target.xml:ffffffffffffffff,ffff",
        "qRcmd,zz",
        "qRcmd,6c647320302066666666",
        "qRcmd,6c6473203078666666666666666666666666666620307866666666666666666666666666666666",
        "qRcmd,64697361736d203078666666666666666666666666666666",
        "vKill",
        "vCont",
        "vCont;",
        "H",
        "p",
        "P",
        "Z",
    ];
    for packet in packets {
        let mut client = Client::raw("asm_axpy", "gfx942", &[]);
        client.tell(packet);
        // It answers, or hangs up and goes on; then the launch ends with a status, never by a panic (101) or signal.
        client.send(b"\x03$#00$}#7d+++---$D#44");
        let mut rest = [0; 4096];
        while !matches!(client.stream.read(&mut rest), Ok(0) | Err(_)) {}
        let status = client.status();
        assert!(matches!(status, Some(0 | 1)), "{packet}: {status:?}");
    }
}

#[test]
fn wrong_usage_is_told() {
    let of = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_rocjitsu"))
            .args(args)
            .output();
        let out = out.unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let (status, text) = of(&["run", "--gdb", "true"]);
    assert!(status == Some(2) && text.contains("launch --gdb"), "{text}");
    let (status, text) = of(&["launch", "x.json", "--gdb", "nowhere"]);
    assert!(status == Some(2) && text.contains("HOST:PORT"), "{text}");
}
