module barewire

go 1.21
