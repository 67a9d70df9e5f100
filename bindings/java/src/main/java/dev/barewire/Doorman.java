package dev.barewire;

import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.spi.AbstractSelectableChannel;
import java.nio.channels.spi.AbstractSelector;
import java.util.Set;
import java.util.function.LongSupplier;

/** Lets {@link Thread#interrupt} end a wait in the library, which it would not by itself. A selector in that respect only. */
final class Doorman extends AbstractSelector {
    private final Runnable wake;

    Doorman(Runnable wake) {
        super(null);
        this.wake = wake;
    }

    /** Waits; a thread that is interrupted, before or meanwhile, is woken. One thread at a time. */
    long guard(LongSupplier wait) {
        begin();
        try {
            return wait.getAsLong();
        } finally {
            end();
        }
    }

    @Override
    public Selector wakeup() {
        wake.run();
        return this;
    }

    @Override
    protected void implCloseSelector() {}

    @Override
    protected SelectionKey register(
            AbstractSelectableChannel channel, int operations, Object attachment) {
        throw new UnsupportedOperationException();
    }

    @Override
    public Set<SelectionKey> keys() {
        throw new UnsupportedOperationException();
    }

    @Override
    public Set<SelectionKey> selectedKeys() {
        throw new UnsupportedOperationException();
    }

    @Override
    public int selectNow() {
        throw new UnsupportedOperationException();
    }

    @Override
    public int select(long timeout) {
        throw new UnsupportedOperationException();
    }

    @Override
    public int select() {
        throw new UnsupportedOperationException();
    }
}
