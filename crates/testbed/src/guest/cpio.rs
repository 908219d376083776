//! A writer of cpio archives in the "newc" format, which the kernel unpacks as initramfs.
//!
//! Format: `Documentation/driver-api/early-userspace/buffer-format.rst` of the kernel.
//! Folders and plain files are all that a small initramfs has.

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const TRAILER: &str = "TRAILER!!!";

/// An archive under construction. Names are relative, folders before their content.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER, &[]);
    }

    /// Every file is executable: there is nobody to be kept from running it.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, content);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(TRAILER, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let length = |n: usize| {
            u32::try_from(n).expect("an initramfs of this testbed is a few megabytes long")
        };
        let fields: [u32; 13] = [
            self.entries, // inode: distinct, so that nothing looks like a hard link
            mode,
            0,                                  // uid
            0,                                  // gid
            if mode == FOLDER { 2 } else { 1 }, // links
            0,                                  // mtime
            length(content.len()),
            0, // device of the file, major and minor
            0,
            0, // device that the file is, major and minor
            0,
            length(name.len() + 1), // with the closing NUL
            0,                      // checksum, of another variant of the format
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads an archive back: name, mode and content of every entry.
    fn parse(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let total = bytes.len();
        let mut entries = Vec::new();
        loop {
            let number = |at: usize| {
                let text = std::str::from_utf8(&bytes[6 + 8 * at..14 + 8 * at]).unwrap();
                u32::from_str_radix(text, 16).unwrap() as usize
            };
            assert_eq!(&bytes[..6], b"070701");
            let (mode, size, name_size) = (number(1), number(6), number(11));
            let name = std::str::from_utf8(&bytes[110..110 + name_size - 1]).unwrap();
            assert_eq!(bytes[110 + name_size - 1], 0);
            let start = (110 + name_size).next_multiple_of(4);
            let end = start + size;
            let entry = (
                name.to_owned(),
                u32::try_from(mode).unwrap(),
                bytes[start..end].to_vec(),
            );
            bytes = &bytes[end.next_multiple_of(4)..];
            assert_eq!((total - bytes.len()) % 4, 0);
            if entry.0 == TRAILER {
                assert!(bytes.is_empty());
                return entries;
            }
            entries.push(entry);
        }
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        let mut archive = Archive::default();
        archive.folder("bin");
        for length in 0..6 {
            archive.file(&format!("bin/{}", "x".repeat(length + 1)), &vec![7; length]);
        }
        let entries = parse(&archive.finish());
        assert_eq!(entries.len(), 7);
        assert_eq!(entries[0], ("bin".to_owned(), 0o040_755, vec![]));
        assert_eq!(entries[4], ("bin/xxxx".to_owned(), 0o100_755, vec![7; 3]));
    }

    #[test]
    fn the_header_has_the_bytes_of_the_format() {
        let mut archive = Archive::default();
        archive.file("init", b"hello");
        let bytes = archive.finish();
        let header = b"070701\
            00000001000081ed00000000000000000000000100000000\
            0000000500000000000000000000000000000000000000050\
            0000000init\0\0hello\0\0\x00070701";
        assert_eq!(&bytes[..header.len()], header);
    }
}
