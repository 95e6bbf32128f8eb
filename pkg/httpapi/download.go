package httpapi

import (
	"net/http"
	"os"
	"time"
)

// downloadTimeout is how long a client may take to read the next 32 KB of a file.
const downloadTimeout = time.Minute

// send sends a file, or the range of it that the client asks for, and closes it.
func (r *request) send(w http.ResponseWriter, f *os.File) {
	defer f.Close() //nolint:errcheck // the file is only read
	var modified time.Time
	if info, err := f.Stat(); err == nil {
		modified = info.ModTime()
	}
	http.ServeContent(downloadWriter{w, &r.log.status}, r.Request, "", modified, f)
}

// downloadWriter notes the status for the log, and extends the write deadline of the connection
// with each write, so that a download may take as long as the client keeps reading.
type downloadWriter struct {
	http.ResponseWriter
	status *int
}

func (w downloadWriter) WriteHeader(status int) {
	*w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w downloadWriter) Write(b []byte) (int, error) {
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(downloadTimeout)) //nolint:errcheck // the write fails too
	return w.ResponseWriter.Write(b)
}
