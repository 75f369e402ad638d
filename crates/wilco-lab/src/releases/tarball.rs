//! A `.tar.gz` whose bytes depend on its content alone: POSIX ustar, wrapped in gzip (RFC 1952) without compression
//! (RFC 1951 §3.2.4), no times, no owners. Pure.

/// One file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path in the archive, at most 100 bytes.
    pub path: &'static str,
    pub executable: bool,
    pub content: String,
}

const BLOCK: usize = 512;
/// The largest stored block of deflate.
const STORED_MAX: usize = 65_535;

/// The archive of these files, in this order.
pub fn tar_gz(entries: &[Entry]) -> Vec<u8> {
    gzip(&tar(entries))
}

fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut archive = Vec::new();
    for entry in entries {
        archive.extend_from_slice(&header(entry));
        archive.extend_from_slice(entry.content.as_bytes());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    // Two empty blocks end it.
    archive.resize(archive.len() + 2 * BLOCK, 0);
    archive
}

fn header(entry: &Entry) -> Vec<u8> {
    let mode = if entry.executable { 0o755 } else { 0o644 };
    let mut header = Vec::with_capacity(BLOCK);
    let mut field = |text: &str, width: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(width, 0);
        header.extend_from_slice(&bytes);
    };
    field(entry.path, 100);
    field(&format!("{mode:07o}"), 8);
    field("0000000", 8);
    field("0000000", 8);
    field(&format!("{:011o}", entry.content.len()), 12);
    field("00000000000", 12);
    // The sum counts itself as spaces.
    field("        ", 8);
    field("0", 1);
    field("", 100);
    field("ustar", 6);
    field("00", 2);
    field("", BLOCK - 265);
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header.splice(148..156, format!("{sum:06o}\0 ").into_bytes());
    header
}

fn gzip(content: &[u8]) -> Vec<u8> {
    // Deflate, no flags, no time, no hint, system unknown.
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut blocks = content.chunks(STORED_MAX).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        file.push(u8::from(blocks.peek().is_none()));
        file.extend_from_slice(&length.to_le_bytes());
        file.extend_from_slice(&(!length).to_le_bytes());
        file.extend_from_slice(block);
    }
    file.extend_from_slice(&crc32(content).to_le_bytes());
    let length = u32::try_from(content.len() & 0xffff_ffff).unwrap_or(0);
    file.extend_from_slice(&length.to_le_bytes());
    file
}

/// CRC-32 as in RFC 1952 §8, a bit at a time: these files are small.
fn crc32(content: &[u8]) -> u32 {
    let rest = content.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    });
    !rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_everybody_computes() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn the_same_content_gives_the_same_whole_blocks() {
        let entries = [Entry {
            path: "VERSION",
            executable: false,
            content: "v2.4.0\n".into(),
        }];
        let archive = tar(&entries);
        assert_eq!(
            (archive.len(), archive.get(257..262)),
            (4 * BLOCK, Some(&b"ustar"[..]))
        );
        assert_eq!(tar_gz(&entries), tar_gz(&entries));
    }
}
