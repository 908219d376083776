//! The kernel proper inside a bzImage.
//!
//! An emulated machine unpacks the bzImage slowly; QEMU boots the unpacked
//! kernel at once. Offsets: `Documentation/arch/x86/boot.rst` of the kernel.

use std::io;

const XZ: &[u8] = b"\xfd7zXZ\0";
const ELF: &[u8] = b"\x7fELF";

/// The kernel, unpacked by `unxz`, or nothing if it is not packed with xz.
///
/// A caller without an unpacked kernel boots the bzImage itself, only slower.
pub(super) fn unpack(
    image: &[u8],
    unxz: impl Fn(&[u8]) -> io::Result<Vec<u8>>,
) -> io::Result<Option<Vec<u8>>> {
    let Some(payload) = payload(image).filter(|payload| payload.starts_with(XZ)) else {
        return Ok(None);
    };
    let kernel = unxz(payload)?;
    Ok(kernel.starts_with(ELF).then_some(kernel))
}

/// The packed kernel, by the offsets in the boot header.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let version = u16::from_le_bytes(image.get(0x206..0x208)?.try_into().ok()?);
    // Version 2.08 brought the payload's place.
    if image.get(0x202..0x206)? != b"HdrS" || version < 0x208 {
        return None;
    }
    let setup_sectors = match image.get(0x1f1)? {
        0 => 4,
        n => usize::from(*n),
    };
    let start = (setup_sectors + 1) * 512 + number(0x248)?;
    image.get(start..start + number(0x24c)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * 512 + 16];
        image[0x1f1] = 2;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
        image.extend_from_slice(payload);
        image.extend_from_slice(b"after");
        image
    }

    #[test]
    fn the_payload_is_where_the_header_says() {
        assert_eq!(payload(&image(b"kernel")), Some(b"kernel".as_slice()));
    }

    #[test]
    fn an_old_or_short_or_foreign_image_has_no_payload() {
        let mut old = image(b"kernel");
        old[0x206] = 7;
        assert_eq!(payload(&old), None);
        assert_eq!(payload(&image(b"kernel")[..0x600]), None);
        assert_eq!(payload(b"MZ"), None);
    }

    /// Stands for xz: removes the magic.
    fn unxz(packed: &[u8]) -> io::Result<Vec<u8>> {
        let kernel = packed.strip_prefix(XZ).map(<[u8]>::to_vec);
        kernel.ok_or_else(|| io::Error::other("not packed"))
    }

    #[test]
    fn a_packed_kernel_is_unpacked() {
        let kernel = [ELF, b" and so on"].concat();
        let image = image(&[XZ, &kernel].concat());
        assert_eq!(unpack(&image, unxz).unwrap(), Some(kernel));
    }

    #[test]
    fn another_compression_and_another_content_are_left_alone() {
        assert_eq!(
            unpack(&image(b"\x28\xb5\x2f\xfd zstd"), unxz).unwrap(),
            None
        );
        assert_eq!(unpack(&image(&[XZ, b"MZ"].concat()), unxz).unwrap(), None);
    }

    #[test]
    fn a_kernel_that_cannot_be_unpacked_is_an_error() {
        let broken = |_: &[u8]| Err(io::Error::other("broken"));
        assert!(unpack(&image(XZ), broken).is_err());
    }
}
