package importer

import "testing"

func TestEncoding(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{"latin1": "windows-1252", "UTF8": "", "utf-16": "utf-16le", "Shift_JIS": "shift_jis"} {
		if got, err := Encoding(label); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", label, got, err, want)
		}
	}
	for _, label := range []string{"nothing", "iso-2022-kr"} { // iso-2022-kr is in the WHATWG standard, but is not supported
		if got, err := Encoding(label); err == nil {
			t.Errorf("%s: %q", label, got)
		}
	}
}
