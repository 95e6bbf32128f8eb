package worker

// FlushRecords makes w flush the compressor after each record, so that files of a few
// records have several parts. Without this, the compressor would hold back tens of
// kilobytes.
func FlushRecords(w *Worker) { w.flush = true }
