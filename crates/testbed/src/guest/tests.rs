use super::*;

#[test]
fn lines_come_without_carriage_returns_also_the_unfinished_last_one() {
    let output: &[u8] = b"one\r\n\r\ntw\xffo\nthree";
    let lines: Vec<_> = lines_of(Some(output)).into_iter().collect();
    assert_eq!(lines, ["one", "", "tw\u{fffd}o", "three"]);
}

#[test]
fn an_error_tells_what_qemu_and_the_kernel_said_last() {
    let dir = tempfile::tempdir().unwrap();
    let (stderr, console) = (dir.path().join("a"), dir.path().join("b"));
    fs::write(&console, "Kernel panic\r\n").unwrap();
    assert_eq!(said(&stderr, &console), "Kernel panic");
    fs::write(&stderr, "no such device\n").unwrap();
    assert_eq!(said(&stderr, &console), "no such device\nKernel panic");
}
