//! What is said of feed channels at the end: their books, what was counted, and whether it is the truth.

use crate::console::Console;
use crate::failure::{Code, Failure};
use barewire_feed::Channel;
use barewire_feed_handler::FeedChannel;
use barewire_feed_handler::print::{Printer, Show, best, book_json};
use std::path::Path;

/// All books, and what has been counted.
///
/// # Errors
/// When nobody reads it.
pub fn end(channels: &[(u32, &FeedChannel<Printer>)], show: Show, console: &Console) -> anyhow::Result<()> {
    let mut text = String::new();
    for (id, channel) in channels {
        let core = channel.core();
        if !show.each {
            for book in core.books() {
                let line = if show.json { book_json(*id, &book).to_string() } else { best(&book) };
                text.push_str(&line);
                text.push('\n');
            }
        }
        let counters = core.counters();
        let (books, trades) = channel.listener().counts();
        console.tell(&format!(
            "channel {id}: {} packets, {} messages, {} events; {} books shown, {} trades; {} gaps ({} packets), \
             {} instruments from snapshots; {} packets or messages dropped",
            counters.packets,
            counters.messages,
            counters.events,
            books,
            trades,
            counters.gaps,
            counters.lost_packets,
            counters.snapshots_applied,
            drops(core),
        ));
    }
    if !text.is_empty() {
        crate::console::print(&text)?;
    }
    Ok(())
}

fn drops(core: &Channel) -> String {
    let list: Vec<String> =
        core.counters().drops().map(|(reason, count)| format!("{count} {reason}")).collect();
    if list.is_empty() { "no".to_owned() } else { list.join(", ") }
}

/// The exit code: whether the books are those of the truth file, where one is given.
///
/// # Errors
/// As [`confirm`].
pub fn judge(
    truth: Option<&Path>,
    channels: &[(u32, &FeedChannel<Printer>)],
    console: &Console,
) -> anyhow::Result<Code> {
    let Some(path) = truth else { return Ok(Code::Done) };
    let cores: Vec<_> = channels.iter().map(|(id, channel)| (*id, channel.core())).collect();
    confirm(path, &cores, console)
}

/// Holds a channel's books against the truth in a file.
///
/// # Errors
/// When the file cannot be read, or is about none of these channels.
pub fn confirm(path: &Path, channels: &[(u32, &Channel)], console: &Console) -> anyhow::Result<Code> {
    const SHOWN: usize = 8;
    const LONG: usize = 240;
    let truth = super::truth(path)?;
    let id = u32::from(truth.header.channel_id);
    let Some((_, channel)) = channels.iter().find(|(channel, _)| *channel == id) else {
        let why = format!("{}: channel {id} is not in the configuration", path.display());
        return Err(Failure::new(Code::Usage, why).into());
    };
    let differences = truth.compare(channel, true);
    for difference in differences.iter().take(SHOWN) {
        console.error(&difference.to_string().chars().take(LONG).collect::<String>());
    }
    if differences.len() > SHOWN {
        console.error(&format!("and {} more", differences.len() - SHOWN));
    }
    if !differences.is_empty() {
        return Ok(Code::Failed);
    }
    console.tell(&format!("all {} books are the truth", truth.books.len()));
    Ok(Code::Done)
}
