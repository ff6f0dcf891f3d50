//! `rocjitsu launch --gdb`, `resume --gdb` and `run --gdb`, driven over GDB's remote protocol by a client of these tests' own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use rocjitsu_exec::record::SHARED_BASE;

trait Socket: Read + Write + Send {}

impl<T: Read + Write + Send> Socket for T {}

/// A command that waits for us, and the connection to it.
struct Client {
    child: Child,
    stream: BufReader<Box<dyn Socket>>,
    xml: String,
}

/// A file of the corpus.
fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/corpus/built")
        .join(name)
}

fn rocjitsu(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocjitsu"));
    command.args(args);
    command
}

impl Client {
    /// Starts a command and connects where it says that it waits.
    fn of(command: &mut Command) -> Client {
        Client::after(command, || {})
    }

    /// The same, but it connects only when `ready` has returned.
    fn after(command: &mut Command, ready: impl FnOnce()) -> Client {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let (_, address) = line.trim().rsplit_once(" at ").expect(&line);
        ready();
        let stream: Box<dyn Socket> = match address.contains('/') {
            true => Box::new(UnixStream::connect(address).unwrap()),
            false => {
                let stream = TcpStream::connect(address).unwrap();
                // Commands are not held back until what came before is acknowledged.
                stream.set_nodelay(true).unwrap();
                Box::new(stream)
            }
        };
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::stderr()));
        Client {
            child,
            stream: BufReader::new(stream),
            xml: String::new(),
        }
    }

    fn raw(kernel: &str, target: &str, more: &[&str]) -> Client {
        let args = ["--target", target, "--check", "--gdb", "localhost:0"];
        let mut command = rocjitsu(&["launch"]);
        command.arg(built(&format!("{kernel}.json")));
        Client::of(command.args(args).args(more).stdout(Stdio::null()))
    }

    fn new(kernel: &str, target: &str, more: &[&str]) -> Client {
        Client::raw(kernel, target, more).introduced()
    }

    /// Asks for features and the description of the registers.
    fn introduced(self) -> Client {
        let mut client = self;
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
        // After its last answer the other side is gone.
        let _ = self.stream.get_mut().write_all(b"+");
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

    /// What the command has said on standard output, and its status.
    fn output(self) -> (String, Option<i32>) {
        let Client { child, stream, .. } = self;
        drop(stream);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text, output.status.code())
    }

    fn floats(&mut self, name: &str) -> Vec<f32> {
        floats(&self.register(name))
    }

    fn detach(mut self) -> Option<i32> {
        self.ok("D");
        self.status()
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks().0.iter();
    words.map(|b| f32::from_le_bytes(*b)).collect()
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

/// A step of no thread in particular is one of the wave that the client looks at, the others stand still; threads that are not
/// there cannot be chosen or stepped.
#[test]
fn steps_without_a_thread_and_threads_that_are_not_there() {
    let mut client = Client::new("hip_lds_reduce", "gfx90a", &[]);
    let pc = |client: &mut Client, thread: &str| {
        client.ok(&format!("Hg{thread}"));
        client.scalar("pc")
    };
    let entry = pc(&mut client, "1");
    for (packet, moved, other) in [
        ("vCont;s", "1", "2"),
        ("vCont;s", "2", "1"),
        ("vCont;s:-1", "2", "1"),
        ("vCont;S05", "1", "2"),
    ] {
        let rest = pc(&mut client, other);
        let before = pc(&mut client, moved);
        let stop = client.ask(packet);
        assert!(
            stop.starts_with("T05") && stop.contains(&format!("thread:{moved:0>2}")),
            "{stop}"
        );
        assert!(pc(&mut client, moved) > before, "{packet}");
        assert_eq!(pc(&mut client, other), rest, "{packet}");
    }
    assert!(pc(&mut client, "1") > entry);
    let before = pc(&mut client, "2");
    for wrong in [
        "Hg999",
        "Hg7ffffffffffffffe",
        "vCont;s:999",
        "vCont;s:999;c",
    ] {
        let answer = client.ask(wrong);
        assert!(answer.starts_with('E'), "{wrong}: {answer}");
    }
    // Nothing has moved, and the thread that was chosen still is.
    assert_eq!(client.scalar("pc"), before);
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

/// With line tables a fault is told with its source line.
#[test]
fn a_fault_is_told_with_its_source_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/plugins");
    let source = std::fs::read_to_string(folder.join("seeded.hip")).unwrap();
    let mut lines = source.lines().enumerate();
    lines.find(|(_, line)| line.contains("kernel memory_misaligned_atomic"));
    let (line, _) = lines.find(|(_, l)| l.contains("fetch_add")).unwrap();
    for target in ["gfx90a", "gfx942", "gfx1100", "gfx1201"] {
        let mut command = rocjitsu(&["launch"]);
        command.arg(folder.join(format!("built/seeded.{target}.hsaco")));
        command.args([
            "--kernel",
            "memory_misaligned_atomic",
            "--grid",
            "4",
            "--block",
            "256",
        ]);
        command.args(["--arg", "buf:8192", "--arg", "buf:5120", "--arg", "buf:256"]);
        command.args(["--gdb", "localhost:0"]).stdout(Stdio::null());
        let mut client = Client::of(&mut command).introduced();
        assert_eq!(client.monitor("fault"), "none\n");
        let stop = client.ask("vCont;c");
        assert!(stop.starts_with('T') && !stop.starts_with("T05"), "{stop}");
        let said = client.monitor("fault");
        let (_, place) = said.split_once("\n  source: ").expect(&said);
        let place = place.lines().next().unwrap();
        assert!(
            place.ends_with(&format!("seeded.hip:{}", line + 1)),
            "{target}: {place}"
        );
        client.tell("k");
        assert_eq!(client.status(), Some(1));
    }
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

/// Target, lanes of a wave, SGPRs, VGPRs, AccVGPRs.
const REGISTERS: [(&str, usize, usize, usize, usize); 7] = [
    ("gfx90a", 64, 102, 256, 256),
    ("gfx942", 64, 102, 256, 256),
    ("gfx950", 64, 102, 256, 256),
    ("gfx1100", 32, 106, 256, 0),
    ("gfx1151", 32, 106, 256, 0),
    ("gfx1201", 32, 106, 256, 0),
    ("gfx1250", 32, 106, 1024, 0),
];

#[test]
fn each_target_has_its_registers() {
    for (target, lanes, sgprs, vgprs, agprs) in REGISTERS {
        let mut client = Client::new("asm_axpy", target, &[]);
        let count = |letter: char| {
            let names = client.xml.split("<reg name=\"").skip(1);
            let names = names.map(|rest| rest.split('"').next().unwrap());
            let of = |name: &&str| {
                let number = name.strip_prefix(letter);
                number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            };
            names.filter(of).count()
        };
        assert_eq!(
            [count('s'), count('v'), count('a')],
            [sgprs, vgprs, agprs],
            "{target}"
        );
        for mask in ["exec", "vcc"] {
            assert_eq!(client.register(mask).len(), lanes / 8, "{target}");
        }
        assert_eq!(client.scalar("exec"), u64::MAX >> (64 - lanes), "{target}");
        // Nothing but the client has written the last ones; the kernel comes to its right end nevertheless.
        let mut last = vec![format!("v{}", vgprs - 1), format!("s{}", sgprs - 1)];
        last.extend((agprs > 0).then(|| format!("a{}", agprs - 1)));
        for name in last {
            let size = if name.starts_with('s') { 4 } else { 4 * lanes };
            assert_eq!(client.register(&name), vec![0; size], "{target} {name}");
            let value: Vec<u8> = (0..size).map(|at| at as u8).collect();
            client.set(&name, &value);
            assert_eq!(client.register(&name), value, "{target} {name}");
        }
        let beyond = client.xml.matches("<reg name=").count();
        assert!(
            client.ask(&format!("p{beyond:x}")).starts_with('E'),
            "{target}"
        );
        // One instruction of each: the next one is told, in the words of the target.
        let entry = client.scalar("pc");
        let stop = client.ask("vCont;s:1");
        assert!(stop.starts_with("T05"), "{target}: {stop}");
        assert!(client.scalar("pc") > entry, "{target}");
        let text = client.monitor("disasm");
        assert!(
            text.starts_with("-> ") && !text.contains(".long"),
            "{target}: {text}"
        );
        assert_eq!(client.detach(), Some(0), "{target}");
    }
}

#[test]
fn scratch_of_one_lane_is_read_and_written() {
    for (target, ..) in REGISTERS {
        let mut client = Client::new("hip_private_sort", target, &[]);
        let address = |client: &mut Client, lane: u32| {
            let text = client.monitor(&format!("lane {lane}"));
            let (_, address) = text.trim().rsplit_once(" at 0x").expect(&text);
            u64::from_str_radix(address, 16).unwrap()
        };
        let third = address(&mut client, 3);
        for offset in (0..112).step_by(4) {
            client.ok(&format!("Z2,{:x},4", third + offset));
        }
        let stop = client.ask("vCont;c");
        let (_, stored) = stop.split_once("watch:").expect(&stop);
        let stored = u64::from_str_radix(stored.split(';').next().unwrap(), 16).unwrap();
        let offset = stored - third;
        assert!(offset < 112, "{target}: {stop}");
        let fourth = address(&mut client, 4) + offset;
        let neighbour = client.memory(fourth, 4);
        let third = address(&mut client, 3) + offset;
        let before = client.memory(third, 4);
        // The kernel sorts other numbers in each lane.
        assert_ne!(before, neighbour, "{target}");
        client.ok(&format!("M{third:x},4:a1b2c3d4"));
        assert_eq!(
            client.memory(third, 4),
            [0xa1, 0xb2, 0xc3, 0xd4],
            "{target}"
        );
        let fourth = address(&mut client, 4) + offset;
        assert_eq!(client.memory(fourth, 4), neighbour, "{target}");
        let third = address(&mut client, 3) + offset;
        client.ok(&format!("M{third:x},4:{}", hex(&before)));
        assert_eq!(client.detach(), Some(0), "{target}");
    }
}

#[test]
fn a_unix_socket_is_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gdb");
    let file = built("asm_axpy.json");
    let mut command = rocjitsu(&["launch", "--target", "gfx942", "--check", "--gdb"]);
    command.arg(&path).arg(file).stdout(Stdio::null());
    let mut client = Client::of(&mut command).introduced();
    // Nobody else can connect.
    assert!(!path.exists());
    assert!(client.ask("?").starts_with("T05"));
    assert_eq!(client.detach(), Some(0));
}

#[test]
fn a_checkpoint_is_taken_up_under_a_debugger() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let mut keep = rocjitsu(&["launch", "--target", "gfx942", "--at", "instruction:13"]);
    let file = built("asm_axpy.json");
    let kept = keep
        .arg("--checkpoint")
        .arg(&path)
        .arg(file)
        .output()
        .unwrap();
    assert!(kept.status.success());
    // The option stands directly before the file.
    let mut resume = rocjitsu(&["resume", "--check", "--gdb"]);
    let mut client = Client::of(resume.arg(&path).stdout(Stdio::null())).introduced();
    let text = client.monitor("code");
    let (_, entry) = text.trim().rsplit_once("0x").expect(&text);
    let entry = u64::from_str_radix(entry, 16).unwrap();
    let pc = client.scalar("pc");
    assert!(pc > entry && pc <= entry + END, "{pc:#x} {entry:#x}");
    assert!(client.monitor("waves").contains("13 wave instructions"));
    client.ok(&format!("Z0,{:x},4", entry + STORE));
    assert!(client.ask("vCont;c").contains("swbreak"));
    assert_eq!(client.detach(), Some(0));
}

#[test]
fn the_option_may_stand_before_the_file() {
    let file = built("asm_axpy.json");
    let mut command = rocjitsu(&["launch", "--target", "gfx942", "--check", "--gdb"]);
    let client = Client::of(command.arg(&file).stdout(Stdio::null()));
    assert_eq!(client.introduced().detach(), Some(0));
    let mut command = rocjitsu(&["launch", "--target", "gfx942", "--check", "--gdb", ":0"]);
    let client = Client::of(command.arg(&file).stdout(Stdio::null()));
    assert_eq!(client.introduced().detach(), Some(0));
}

/// The program that uses the driver.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/axpy.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("axpy");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-Wall", "-Werror", "-pthread", "-o"]);
        let done = compiler.arg(&program).arg(source).status();
        assert!(done.expect("a C compiler (cc) is needed").success());
        program
    })
}

/// `rocjitsu run` of it.
fn run(options: &[&str], does: &[&str]) -> Command {
    let mut command = rocjitsu(&["run", "--threads", "2"]);
    command.args(options).arg("--").arg(program());
    command.arg(built("asm_axpy.gfx942.hsaco")).args(does);
    command.stdout(Stdio::piped());
    command
}

#[test]
fn a_program_is_debugged_over_its_dispatches() {
    let mut client = Client::of(&mut run(&["--gdb"], &["run", "3"])).introduced();
    assert!(client.ask("?").starts_with("T05thread:"));
    let entry = client.scalar("pc");
    assert!(
        client
            .monitor("kernels")
            .contains(&format!("axpy: entry {entry:#x}, 1 "))
    );
    assert!(
        client
            .monitor("dispatches")
            .contains("1: axpy, grid [256, 1, 1]")
    );
    assert!(
        client
            .monitor("symbols axpy")
            .contains(&format!("{entry:#x} axpy\n"))
    );
    // The entry in the file.
    let base = entry - 0x1600;
    assert!(client.monitor("code").contains(&format!("+ {base:#x};")));
    assert!(client.ask("qOffsets").contains(&format!("{base:x}")));

    // Four waves in each dispatch; their elements are (i + turn) / 2 + 3 i.
    client.ok(&format!("Z0,{:x},4", entry + STORE));
    for turn in [1, 2] {
        for group in 0..4 {
            let stop = client.ask("vCont;c");
            assert!(stop.contains("swbreak"), "{stop}");
            let first = client.floats("v2")[0];
            let element = 64.0 * group as f32;
            assert_eq!(first, (element + turn as f32) / 2.0 + 3.0 * element);
        }
    }
    let text = client.monitor("dispatches");
    let first = "1: axpy, grid [256, 1, 1] of [64, 1, 1], GPU 0 (gfx942), doorbell 0, has ended\n";
    assert!(text.contains(first) && text.contains("2 in all"), "{text}");
    // One instruction, and what it has stored.
    let (sum, out) = (
        client.register("v2"),
        client.scalar("s8") | client.scalar("s9") << 32,
    );
    client.ok(&format!("z0,{:x},4", entry + STORE));
    let at = out + 3 * 256;
    assert_eq!(client.memory(at, 128), vec![0; 128]);
    let stop = client.ask("vCont;s:4");
    assert!(stop.starts_with("T05"), "{stop}");
    assert_eq!(client.memory(at, 128), sum[..128]);
    client.ok("D");
    let (text, status) = client.output();
    assert_eq!(
        text,
        "dispatch 1 is right\ndispatch 2 is right\ndispatch 3 is right\n"
    );
    assert_eq!(status, Some(0));
}

#[test]
fn dispatches_of_a_pm4_queue_are_debugged_as_others() {
    let mut client = Client::of(&mut run(&["--gdb"], &["pm4", "2"])).introduced();
    let entry = client.scalar("pc");
    let text = client.monitor("dispatches");
    assert!(
        text.contains("1: axpy, grid [256, 1, 1] of [64, 1, 1]"),
        "{text}"
    );
    client.ok(&format!("Z0,{:x},4", entry + STORE));
    for turn in [1, 2] {
        for group in 0..4 {
            let stop = client.ask("vCont;c");
            assert!(stop.contains("swbreak"), "{stop}");
            let (first, element) = (client.floats("v2")[0], 64.0 * group as f32);
            assert_eq!(first, (element + turn as f32) / 2.0 + 3.0 * element);
            // The last one is changed in one lane.
            if (turn, group) == (2, 3) {
                let mut sum = client.register("v2");
                sum[0] ^= 1;
                client.set("v2", &sum);
            }
        }
    }
    assert_eq!(client.ask("vCont;c"), "W01");
    let (text, status) = client.output();
    assert_eq!(text, "dispatch 1 is right\ndispatch 2 is wrong\n");
    assert_eq!(status, Some(1));
}

/// Waits until a file is there.
fn until_there(path: &Path) {
    for _ in 0..6000 {
        if path.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no {}", path.display());
}

#[test]
fn a_queue_is_destroyed_while_its_dispatch_stands() {
    // At its beginning; in the middle, where the client has the dispatch's state; after one step.
    for before in ["", "break", "step"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("go");
        let file = path.to_str().unwrap();
        let mut client = Client::of(&mut run(&["--gdb"], &["destroy", file])).introduced();
        let entry = client.scalar("pc");
        match before {
            "break" => {
                client.ok(&format!("Z0,{:x},4", entry + STORE));
                assert!(client.ask("vCont;c").contains("swbreak"));
                client.ok(&format!("z0,{:x},4", entry + STORE));
            }
            "step" => assert!(client.ask("vCont;s:1").starts_with("T05")),
            _ => {}
        }
        std::fs::write(&path, "").unwrap();
        until_there(&folder.path().join("go.done"));
        // There is no wave any more to be asked for, and the client hears so.
        assert!(client.ask("p0").starts_with('E'), "{before}");
        assert!(client.monitor("waves").contains("no dispatch"), "{before}");
        client.monitor("stop next");
        let stop = client.ask("vCont;c");
        assert!(stop.starts_with("T05"), "{before}: {stop}");
        assert_eq!(client.scalar("pc"), entry);
        assert!(client.monitor("dispatches").contains("2: axpy"));
        assert_eq!(client.ask("vCont;c"), "W00");
        let (text, status) = client.output();
        assert_eq!((text.as_str(), status), ("dispatch 2 is right\n", Some(0)));
    }
}

#[test]
fn a_queue_is_destroyed_while_nobody_has_connected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("go");
    let file = path.to_str().unwrap();
    // The first dispatch waits for a client, and has gone when it comes.
    let mut command = run(&["--gdb"], &["destroy", file]);
    let client = Client::after(&mut command, || {
        std::fs::write(&path, "").unwrap();
        until_there(&folder.path().join("go.done"));
    });
    let mut client = client.introduced();
    assert!(client.ask("?").starts_with("T05"));
    assert_ne!(client.scalar("pc"), 0);
    assert!(client.monitor("dispatches").contains("2: axpy"));
    client.ok("D");
    let (text, status) = client.output();
    assert_eq!((text.as_str(), status), ("dispatch 2 is right\n", Some(0)));
}

#[test]
fn a_program_ends_while_its_dispatch_stands() {
    for middle in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("go");
        let file = path.to_str().unwrap();
        let mut client = Client::of(&mut run(&["--gdb"], &["exit", file])).introduced();
        let entry = client.scalar("pc");
        if middle {
            client.ok(&format!("Z0,{:x},4", entry + STORE));
            assert!(client.ask("vCont;c").contains("swbreak"));
        }
        std::fs::write(&path, "").unwrap();
        // Nobody waits for an answer: the connection ends.
        if let Err(error) = client.stream.read_to_end(&mut Vec::new()) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        assert_eq!(client.output(), (String::new(), Some(5)), "{middle}");
    }
    // A dispatch runs when the program ends: the client is told the status.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("go");
    let file = path.to_str().unwrap();
    let mut client = Client::of(&mut run(&["--gdb"], &["exit", file])).introduced();
    client.tell("vCont;c");
    std::thread::sleep(std::time::Duration::from_millis(50));
    std::fs::write(&path, "").unwrap();
    assert_eq!(client.packet(), "W05");
    assert_eq!(client.output().1, Some(5));
}

#[test]
fn what_the_client_changes_is_what_the_program_gets() {
    let mut client = Client::of(&mut run(&["--gdb=localhost:0"], &["run", "2"])).introduced();
    let entry = client.scalar("pc");
    client.ok(&format!("Z1,{:x},4", entry + STORE));
    assert!(client.ask("vCont;c").contains("hwbreak"));
    client.ok(&format!("z1,{:x},4", entry + STORE));
    client.set("v2", &[0x5a; 256]);
    client.monitor("stop axp");
    let stop = client.ask("vCont;c");
    assert!(
        stop.starts_with("T05"),
        "the second dispatch stops at its beginning: {stop}"
    );
    assert_eq!(client.scalar("pc"), entry);
    assert!(
        client.monitor("dispatches").contains("1: axpy")
            && client.monitor("stop").contains("where")
    );
    // Its status is told.
    assert_eq!(client.ask("vCont;c"), "W01");
    let (text, status) = client.output();
    assert_eq!(text, "dispatch 1 is wrong\ndispatch 2 is right\n");
    assert_eq!(status, Some(1));
}

#[test]
fn a_kill_ends_the_program_and_a_lost_client_does_not() {
    let mut client = Client::of(&mut run(&["--gdb"], &["run", "2"]));
    client.tell("k");
    let (text, status) = client.output();
    assert_eq!((text.as_str(), status), ("", Some(128 + 9)));

    let client = Client::of(&mut run(&["--gdb"], &["run", "2"])).introduced();
    assert_eq!(client.output().1, Some(0));
}

#[test]
fn the_dispatch_that_stops_is_chosen() {
    let options = ["--gdb", "--gdb-dispatch", "3", "--gdb-kernel", "axp"];
    let mut client = Client::of(&mut run(&options, &["run", "4"])).introduced();
    assert!(client.monitor("dispatches").contains("3: axpy"));
    assert!(!client.monitor("dispatches").contains("4: axpy"));
    client.ok("D");
    assert_eq!(client.output().1, Some(0));

    let mut other = run(&["--gdb", "--gdb-kernel", "gemm"], &["run", "2"]);
    let output = other.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn kernels_that_wait_for_each_other_take_turns() {
    let mut client = Client::of(&mut run(&["--gdb"], &["pair"])).introduced();
    assert_eq!(client.ask("vCont;c"), "W00");
    assert_eq!(client.output(), ("both have ended\n".to_owned(), Some(0)));

    // The second one stops while the first one is under way and stands still.
    let mut client = Client::of(&mut run(&["--gdb"], &["pair"])).introduced();
    let first = client.scalar("pc");
    client.monitor("stop next");
    let stop = client.ask("vCont;c");
    assert!(stop.starts_with("T05"), "{stop}");
    assert_ne!(client.scalar("pc"), first);
    assert!(client.monitor("dispatches").contains("waits"));
    assert_eq!(client.ask("vCont;c"), "W00");
    assert_eq!(client.output().1, Some(0));
}

#[test]
fn a_program_is_interrupted() {
    let mut client = Client::of(&mut run(&["--gdb"], &["run", "2000"])).introduced();
    client.tell("vCont;c");
    std::thread::sleep(std::time::Duration::from_millis(20));
    client.send(b"\x03");
    let stop = client.packet();
    assert!(stop.starts_with("T02"), "{stop}");
    assert_ne!(client.scalar("pc"), 0);
    client.tell("k");
    assert_eq!(client.output().1, Some(128 + 9));
}

#[test]
fn a_forked_child_has_no_debugger_and_keeps_no_connection() {
    let mut command = run(&["--gdb"], &["child", "1"]);
    // The child outlives the program and keeps its standard output.
    let mut client = Client::of(command.stdout(Stdio::null())).introduced();
    let entry = client.scalar("pc");
    client.ok(&format!("Z0,{entry:x},4"));
    // The wave that stands there passes, the others stop.
    for _ in 0..3 {
        let stop = client.ask("vCont;c");
        assert!(stop.contains("swbreak"), "{stop}");
    }
    assert_eq!(client.ask("vCont;c"), "W07");
    // The connection ends, by a reset where the last acknowledgement was not read.
    if let Err(error) = client.stream.read_to_end(&mut Vec::new()) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    assert_eq!(client.status(), Some(7));
}

#[test]
fn the_connection_is_out_of_the_programs_way() {
    let mut client = Client::of(&mut run(&["--gdb"], &["hidden"])).introduced();
    assert_eq!(client.ask("vCont;c"), "W00");
    let (text, status) = client.output();
    assert_eq!(status, Some(0));
    assert!(text.contains("1 sockets"), "{text}");
}

#[test]
fn waves_of_either_size_have_the_registers_of_one_description() {
    let mut command = rocjitsu(&["run", "--gpu", "w7900", "--gdb", "--"]);
    command.arg(program()).arg(built("asm_axpy.gfx1100.hsaco"));
    let mut client = Client::of(command.args(["run", "1"]).stdout(Stdio::piped())).introduced();
    assert_eq!(client.register("exec").len(), 8);
    assert_eq!(client.scalar("exec"), 0xffff_ffff);
    let mut value = vec![0x11; 256];
    client.set("v3", &value);
    value[128..].fill(0);
    assert_eq!(client.register("v3"), value);
    client.ok("D");
    assert_eq!(client.output().1, Some(0));
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
    let (status, text) = of(&["run", "--gdb=nowhere", "true"]);
    assert!(status == Some(2) && text.contains("HOST:PORT"), "{text}");
    let (status, text) = of(&["run", "--gdb", ":0", "--gpu", "mi300x", "true"]);
    assert!(
        status == Some(2) && text.contains("--gdb=localhost:0"),
        "{text}"
    );
    let (status, _) = of(&["run", "--gdb", ":0", "--", "true"]);
    assert_eq!(
        status,
        Some(0),
        "a program without dispatches waits for nobody"
    );
    let (status, text) = of(&["run", "--gdb=:0", "--plugin", "trace", "true"]);
    assert!(status == Some(2) && text.contains("--plugin"), "{text}");
    let (status, text) = of(&["run", "--gdb-dispatch", "2", "true"]);
    assert!(status == Some(2) && text.contains("--gdb"), "{text}");
    let taken = std::net::TcpListener::bind("localhost:0").unwrap();
    let address = format!("--gdb={}", taken.local_addr().unwrap());
    let (status, text) = of(&["run", &address, "true"]);
    assert!(
        status == Some(1) && text.contains("cannot listen"),
        "{text}"
    );
    let (status, text) = of(&["launch", "--gdb"]);
    assert!(status == Some(2) && text.contains("FILE"), "{text}");
    let (status, text) = of(&["launch", "x.json", "--gdb", "nowhere"]);
    assert!(status == Some(2) && text.contains("HOST:PORT"), "{text}");
}
