// The address of what is shown, for somebody else.
import { useState } from "preact/hooks";

export function CopyLink() {
  const [link, setLink] = useState("");
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    const here = withoutToken(window.location.href);
    setLink(here);
    try {
      await navigator.clipboard.writeText(here);
      setCopied(true);
    } catch {
      setCopied(false); // the browser does not allow it: the link stands there to be copied by hand
    }
  };
  return (
    <span class="copy-link">
      <button type="button" class="more" onClick={() => void copy()}>
        Copy link
      </button>{" "}
      <span role="status">{link && copied && "Copied."}</span>
      {link && !copied && <input type="text" readOnly aria-label="The link to this view" value={link} onFocus={(event) => event.currentTarget.select()} />}
    </span>
  );
}

/** The address that somebody else opens with a token of his own. */
export function withoutToken(address: string): string {
  const url = new URL(address);
  url.searchParams.delete("token");
  return url.href;
}
