//! Books and trades in Parquet, read back and held against the CSV of the same replay.
#![cfg(feature = "parquet")]

mod common;

use barewire_base::{Duration, Instant};
use barewire_feed::{BookView, Instrument, Listener, PacketInfo, Trade};
use barewire_feed_emulator::{CaptureWriter, Emulator};
use barewire_feed_handler::{CsvExport, FeedHandler, Input, ParquetExport, Replay, SocketOptions};
use barewire_port::Speed;
use barewire_testing::Folder;
use common::{channel, emulation, plan};
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

const DEPTH: usize = 5;
const GROUP_ROWS: usize = 64;

/// Tells two exports.
struct Both<P> {
    csv: CsvExport<Vec<u8>, Vec<u8>>,
    parquet: P,
}

impl<P: Listener> Listener for Both<P> {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        self.csv.on_packet(packet);
        self.parquet.on_packet(packet);
    }
    fn on_book(&mut self, book: &BookView<'_>) {
        self.csv.on_book(book);
        self.parquet.on_book(book);
    }
    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        self.csv.on_trade(instrument, trade);
        self.parquet.on_trade(instrument, trade);
    }
}

/// Replays an emulated channel to a listener.
fn replay<P: Listener>(folder: &Folder, parquet: P) -> Both<P> {
    let config = emulation(8);
    let start = Instant::from_nanos(9);
    let mut emulator = Emulator::new(config.clone(), start).unwrap();
    let lines = channel(&config).connections;
    let mut writer = CaptureWriter::create(&folder.file("all.pcap"), &lines, &emulator).unwrap();
    let end = start + config.active + Duration::from_millis(600);
    emulator.next_packets(end, &mut |packet| writer.write(packet).unwrap());
    writer.finish().unwrap();
    let mut replay = Replay::open(&[folder.file("all.pcap")], &[channel(&config)], true).unwrap();
    let csv = CsvExport::new(Vec::new(), Vec::new(), DEPTH).unwrap();
    let mut both = Some(Both { csv, parquet });
    let mut handler = FeedHandler::builder(plan(&config, Input::Sockets(SocketOptions::default()), None))
        .sources(vec![])
        .start(replay.next_at().unwrap())
        .listen(|_, _| both.take().unwrap())
        .unwrap();
    handler.replay(&mut replay, Speed::Flat, None).unwrap();
    let mut both = handler.into_channels().remove(0).into_parts().1;
    both.csv.finish().unwrap();
    both
}

/// A file as lines of CSV.
fn lines(file: &Path) -> (Vec<String>, usize) {
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let head: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    let mut lines = vec![head.join(",")];
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let cells = row.get_column_iter().map(|(_, field)| match field {
            Field::Null => String::new(),
            Field::UInt(value) => value.to_string(),
            Field::Int(value) => value.to_string(),
            Field::Long(value) => value.to_string(),
            Field::Str(text) => text.clone(),
            Field::Decimal(value) => {
                assert_eq!((value.precision(), value.scale()), (18, 9));
                let mantissa = i64::from_be_bytes(value.data().try_into().unwrap());
                barewire_sbe::Price9(mantissa).to_string()
            }
            other => panic!("{other:?}"),
        });
        lines.push(cells.collect::<Vec<_>>().join(","));
    }
    (lines, reader.num_row_groups())
}

fn csv_lines(bytes: &[u8]) -> Vec<String> {
    std::str::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_files_say_what_the_csv_says() {
    let folder = Folder::new("parquet");
    let (books, trades) = (folder.file("books.parquet"), folder.file("trades.parquet"));
    let create = |path: &Path| File::create(path).unwrap();
    let export = ParquetExport::with_group_rows(create(&books), create(&trades), DEPTH, GROUP_ROWS).unwrap();
    let mut both = replay(&folder, export);
    assert_eq!(both.parquet.rows(), both.csv.rows());
    both.parquet.finish().unwrap();
    both.parquet.finish().unwrap();
    let (rows, _) = both.csv.rows();
    assert!(rows as usize > 2 * GROUP_ROWS, "{rows} rows are not enough for several groups");
    let (csv_books, csv_trades) = both.csv.writers();
    for (file, csv) in [(&books, csv_books), (&trades, csv_trades)] {
        let (ours, groups) = lines(file);
        let csv = csv_lines(csv);
        assert_eq!(ours.len(), csv.len());
        for (ours, csv) in ours.iter().zip(&csv) {
            assert_eq!(ours, csv);
        }
        assert_eq!(groups, (csv.len() - 1).div_ceil(GROUP_ROWS));
    }
}

#[test]
fn times_and_prices_have_their_types() {
    let folder = Folder::new("parquet-types");
    let (books, trades) = (folder.file("books.parquet"), folder.file("trades.parquet"));
    drop(ParquetExport::new(File::create(&books).unwrap(), File::create(&trades).unwrap(), 10).unwrap());
    let reader = SerializedFileReader::new(File::open(&books).unwrap()).unwrap();
    let meta = reader.metadata().file_metadata();
    assert_eq!((meta.num_rows(), meta.schema_descr().num_columns()), (0, 70));
    assert!(meta.created_by().unwrap().starts_with("barewire"));
    let logical = |name: &str| {
        let columns = meta.schema_descr().columns();
        let column = columns.iter().find(|column| column.name() == name).unwrap();
        column.logical_type_ref().cloned()
    };
    assert_eq!(logical("transact_time_ns"), Some(LogicalType::timestamp(true, TimeUnit::NANOS)));
    assert_eq!(logical("stamp_ns"), Some(LogicalType::timestamp(false, TimeUnit::NANOS)));
    assert_eq!(logical("offer10_price"), Some(LogicalType::decimal(9, 18)));
    assert_eq!(logical("seq_num"), Some(LogicalType::integer(32, false)));
    assert_eq!(logical("symbol"), Some(LogicalType::String));
    assert!(meta.key_value_metadata().unwrap().iter().any(|pair| pair.key == "barewire.price"));
}

/// Bytes that outlive their export.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_dropped_export_ends_its_files() {
    let folder = Folder::new("parquet-drop");
    let (books, trades) = (Shared::default(), Shared::default());
    let export = ParquetExport::with_group_rows(books.clone(), trades.clone(), DEPTH, GROUP_ROWS).unwrap();
    let both = replay(&folder, export);
    let rows = both.csv.rows();
    let before = books.0.lock().unwrap().len();
    drop(both);
    assert!(books.0.lock().unwrap().len() > before);
    for (bytes, rows) in [(books, rows.0), (trades, rows.1)] {
        std::fs::write(folder.file("dropped.parquet"), &*bytes.0.lock().unwrap()).unwrap();
        let (lines, _) = lines(&folder.file("dropped.parquet"));
        assert_eq!(lines.len() as u64, rows + 1);
    }
}

/// A disk that fills up.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_at_the_end() {
    let folder = Folder::new("parquet-full");
    for room in [10_000, 20_000] {
        let export = ParquetExport::with_group_rows(Full(room), Vec::new(), DEPTH, GROUP_ROWS).unwrap();
        let mut both = replay(&folder, export);
        let error = both.parquet.finish().unwrap_err().to_string();
        assert!(error.contains("space") || error.contains("storage"), "{error}");
        assert!(both.parquet.rows().0 <= both.csv.rows().0);
    }
}
