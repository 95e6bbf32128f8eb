package worker

// FlushRecords makes w flush the compressor after each record, so that files of a few
// records have several parts. Otherwise gzip buffers tens of kilobytes.
func FlushRecords(w *Worker) { w.flush = true }
