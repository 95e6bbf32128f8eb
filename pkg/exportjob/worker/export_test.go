package worker

import (
	"compress/gzip"
	"io"
)

// CompressAtOnce makes w compress each record by itself, quickly and badly, so
// that files of a few records have parts: compression as it is holds back tens
// of kilobytes.
func CompressAtOnce(w *Worker) {
	w.compress = func(to io.Writer) compressor {
		z, _ := gzip.NewWriterLevel(to, gzip.NoCompression)
		return atOnce{z}
	}
}

type atOnce struct{ *gzip.Writer }

func (c atOnce) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	if err == nil {
		err = c.Flush()
	}
	return n, err
}
