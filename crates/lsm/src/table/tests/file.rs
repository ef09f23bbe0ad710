//! A file in memory that counts its calls and can fail.

use super::*;

/// A sparse file in memory.
#[derive(Default)]
pub(super) struct TestFile {
    content: Mutex<Content>,
    reads: AtomicU64,
    bytes_read: AtomicU64,
    /// A byte that cannot be read, and 1; 0 for none.
    bad_sector: AtomicU64,
    /// The lengths of all writes, and 0 for each sync.
    pub(super) calls: Mutex<Vec<usize>>,
    /// How many writes begin within a page of memory, so that direct I/O has to copy them.
    pub(super) unaligned: AtomicU64,
    /// The number of calls that succeed before all later ones fail; `None` for all.
    calls_left: Option<AtomicU64>,
}

#[derive(Default)]
pub(super) struct Content {
    pages: BTreeMap<u64, Vec<u8>>,
    length: u64,
}

pub(super) const PAGE: u64 = 4096;

impl TestFile {
    pub(super) fn holding(bytes: &[u8]) -> Arc<Self> {
        let file = Self::default();
        file.write_all_at(bytes, 0).unwrap();
        Arc::new(file)
    }

    pub(super) fn failing_after(calls: u64) -> Arc<Self> {
        Arc::new(Self {
            calls_left: Some(AtomicU64::new(calls)),
            ..Self::default()
        })
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Lets every read fail that includes this byte.
    pub(super) fn cannot_read(&self, offset: u64) {
        self.bad_sector.store(offset + 1, Ordering::Relaxed);
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len().unwrap() as usize];
        self.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn call(&self) -> io::Result<()> {
        let spend = |left: u64| left.checked_sub(1);
        match &self.calls_left {
            Some(left)
                if left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend)
                    .is_err() =>
            {
                Err(io::Error::other("injected"))
            }
            _ => Ok(()),
        }
    }
}

impl DiskFile for TestFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.call()?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = buffer.len() as u64;
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        let bad = self.bad_sector.load(Ordering::Relaxed).checked_sub(1);
        if bad.is_some_and(|bad| (offset..offset + bytes).contains(&bad)) {
            return Err(io::Error::other("a bad sector"));
        }
        let content = self.content.lock().unwrap();
        if offset + buffer.len() as u64 > content.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let in_page = (at % PAGE) as usize;
            let count = rest.len().min(PAGE as usize - in_page);
            let (part, after) = rest.split_at_mut(count);
            match content.pages.get(&(at / PAGE)) {
                Some(page) => part.copy_from_slice(&page[in_page..][..count]),
                None => part.fill(0),
            }
            at += count as u64;
            rest = after;
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call()?;
        self.calls.lock().unwrap().push(bytes.len());
        if bytes.as_ptr().align_offset(DIRECT_ALIGNMENT) > 0 {
            self.unaligned.fetch_add(1, Ordering::Relaxed);
        }
        let mut content = self.content.lock().unwrap();
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let in_page = (at % PAGE) as usize;
            let (part, after) = rest.split_at(rest.len().min(PAGE as usize - in_page));
            let page = content.pages.entry(at / PAGE);
            page.or_insert_with(|| vec![0; PAGE as usize])[in_page..][..part.len()]
                .copy_from_slice(part);
            at += part.len() as u64;
            rest = after;
        }
        content.length = content.length.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn allocate(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        unreachable!("tables do not allocate")
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.content.lock().unwrap().length = bytes;
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        self.call()?;
        Ok(self.content.lock().unwrap().length)
    }

    fn sync(&self) -> io::Result<()> {
        self.call()?;
        self.calls.lock().unwrap().push(0);
        Ok(())
    }
}
