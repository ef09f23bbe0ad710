use super::*;

/// Decodes `wire` in pieces of `piece_bytes`. Returns the decoder, the body and
/// the number of bytes left over.
fn decode(
    wire: &[u8],
    piece_bytes: usize,
) -> Result<(ResponseDecoder, Vec<u8>, usize), BadResponse> {
    let mut decoder = ResponseDecoder::new();
    let (mut body, mut pending, mut taken) = (Vec::new(), Vec::new(), 0);
    for piece in wire.chunks(piece_bytes) {
        pending.extend_from_slice(piece);
        let step = decoder.take(&pending, |piece| body.extend_from_slice(piece))?;
        pending.drain(..step.bytes);
        taken += step.bytes;
        if step.is_complete {
            break;
        }
    }
    Ok((decoder, body, wire.len() - taken))
}

#[test]
fn a_tag_is_kept_for_who_asks_for_it() {
    let wire = b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 0\r\n\r\n";
    for (is_asked, kept) in [(false, None), (true, Some(&b"\"a\""[..]))] {
        let mut decoder = ResponseDecoder::new();
        if is_asked {
            decoder.keep_etag();
        }
        decoder.take(wire, |_| {}).unwrap();
        assert_eq!(decoder.take_etag().as_deref(), kept);
        decoder.restart();
        decoder.take(wire, |_| {}).unwrap();
        assert_eq!(decoder.take_etag(), None);
    }
}

#[test]
fn responses_do_not_depend_on_how_they_are_split() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nKvorum-Count: 2\r\n\r\n";
    let table: [(&str, u16, &str, u64); 7] = [
        (
            "HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n",
            201,
            "",
            0,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            200,
            "hello",
            0,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", 0),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
            201,
            "",
            0,
        ),
        (chunked, 200, "abc0123456789", 2),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
            200,
            "",
            0,
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\nno",
            503,
            "no",
            0,
        ),
    ];
    for (wire, status, expected, chunks) in table {
        for piece_bytes in [1, 2, 3, 7, wire.len()] {
            let (decoder, body, over) = decode(wire.as_bytes(), piece_bytes).unwrap();
            assert_eq!(decoder.status(), status, "{wire}");
            assert_eq!(body, expected.as_bytes(), "{wire}");
            assert_eq!(decoder.chunks(), chunks, "{wire}");
            assert_eq!(over, 0, "{wire}");
            assert!(decoder.may_end() && !decoder.is_last(), "{wire}");
        }
    }
}

#[test]
fn the_decoder_knows_when_the_connection_ends() {
    for (wire, may_end) in [
        (
            "HTTP/1.1 201 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            true,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", true),
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\ncut",
            false,
        ),
    ] {
        let (decoder, _, _) = decode(wire.as_bytes(), 4).unwrap();
        assert!(decoder.is_last(), "{wire}");
        assert_eq!(decoder.may_end(), may_end, "{wire}");
    }
    let cut = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let (decoder, ..) = decode(cut.as_bytes(), 64).unwrap();
    assert!(!decoder.may_end());
}

#[test]
fn bytes_after_a_response_are_left() {
    let wire = b"HTTP/1.1 201 X\r\nContent-Length: 0\r\n\r\nHTTP/1.1 408";
    let (_, _, over) = decode(wire, wire.len()).unwrap();
    assert_eq!(over, "HTTP/1.1 408".len());
}

#[test]
fn bytes_that_are_not_http_are_refused() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
    for wire in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 2x1 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\naXX",
        &endless,
    ] {
        assert_eq!(
            decode(wire.as_bytes(), 4096).err(),
            Some(BadResponse),
            "{wire}"
        );
    }
}
