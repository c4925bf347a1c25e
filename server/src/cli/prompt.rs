//! Owns where the prompt of a run comes from: the argument, or standard input.
//! Never waits for a person to type it. Tested below.

use std::io::Read;

use super::failure::Failure;

/// Bytes of a prompt, as the server takes it: what it would refuse makes no session.
const PROMPT_BYTES: u64 = gent_actors::limits::PROMPT_BYTES as u64;

/// The prompt. `-` and nothing at all read standard input; nothing at all on a terminal is wrong usage.
pub(crate) fn read_prompt(
    argument: Option<String>,
    stdin: impl Read,
    is_terminal: bool,
) -> Result<String, Failure> {
    let prompt = match argument {
        Some(text) if text != "-" => text,
        None if is_terminal => {
            return Err(Failure::usage("there is no prompt: write it after `gent run`, or pipe it in"));
        }
        Some(_) | None => read_text(stdin)?,
    };
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty: write what the agent shall do"));
    }
    if prompt.len() as u64 > PROMPT_BYTES {
        return Err(too_long());
    }
    Ok(prompt)
}

fn read_text(stdin: impl Read) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    stdin.take(PROMPT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > PROMPT_BYTES {
        return Err(too_long());
    }
    String::from_utf8(bytes).map_err(|_binary| {
        Failure::usage("standard input is no UTF-8 text: convert it, or name the file in the prompt")
    })
}

fn too_long() -> Failure {
    let mebibytes = PROMPT_BYTES / (1024 * 1024);
    Failure::usage(format!("the prompt is longer than {mebibytes} MiB: put it in a file and name that"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_wins_and_a_dash_or_a_pipe_reads_standard_input() {
        let read = |argument: Option<&str>, is_terminal| {
            read_prompt(argument.map(str::to_owned), "piped\n".as_bytes(), is_terminal)
        };
        assert_eq!(read(Some("said"), false), Ok("said".into()));
        assert_eq!(read(Some("-"), true), Ok("piped\n".into()));
        assert_eq!(read(None, false), Ok("piped\n".into()));
        assert!(read(None, true).is_err());
    }

    #[test]
    fn a_prompt_that_the_server_would_refuse_is_refused_before_there_is_a_session() {
        let most = gent_actors::limits::PROMPT_BYTES;
        assert!(read_prompt(Some("x".repeat(most)), &b""[..], true).is_ok());
        let refused = read_prompt(Some("x".repeat(most + 1)), &b""[..], true).unwrap_err();
        assert_eq!(
            refused,
            Failure::usage("the prompt is longer than 4 MiB: put it in a file and name that")
        );
    }

    #[test]
    fn what_is_no_prompt_is_wrong_usage() {
        for bytes in [&b" \n"[..], &[0xff, 0xfe], &vec![b'x'; PROMPT_BYTES as usize + 1]] {
            assert!(read_prompt(None, bytes, false).is_err());
        }
        assert!(read_prompt(Some(String::new()), &b""[..], true).is_err());
    }
}
