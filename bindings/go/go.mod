module barewire.dev/go

go 1.21
